#include "server/identity/issuer_keys.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/backoff.h"
#include "base/quiet_thread.h"
#include "base/steady_time.h"
#include "nlohmann/json.hpp"
#include "server/identity/json_text.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

using Json = nlohmann::json;

constexpr absl::Duration kLongestRetry = absl::Minutes(1);

absl::StatusOr<std::string> Get(const std::string& url, const std::string& ca_pem, RequestEnd* end) {
  HttpsRequest request;
  request.end = end;
  request.url = url;
  request.ca_pem = ca_pem;
  absl::StatusOr<HttpsReply> reply = AskByHttps(request);
  if (!reply.ok()) return reply.status();
  if (reply->status != 200) return absl::UnavailableError(absl::StrCat(url, " answers with status ", reply->status));
  return std::move(reply->body);
}

// "" for none, or none that is a place of HTTPS.
std::string PlaceOf(const Json& document, const char* key) {
  const std::string url = TextOf(document, key);
  return ParseHttpsUrl(url).ok() ? url : "";
}

}  // namespace

IssuerKeys::IssuerKeys(const IssuerConfig& config, const KeyTimes& times, Metrics* metrics)
    : name_(config.name),
      issuer_(config.issuer),
      ca_pem_(config.ca_pem),
      times_(times),
      metrics_(metrics),
      last_(absl::UnavailableError("it has not answered yet")),
      thread_(QuietThread([this] { Run(); })) {}

IssuerKeys::~IssuerKeys() {
  end_.Cancel();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

absl::StatusOr<IssuerKeys::Fetched> IssuerKeys::Fetch() {
  const std::string place = absl::StrCat(absl::StripSuffix(issuer_, "/"), "/.well-known/openid-configuration");
  const absl::StatusOr<std::string> text = Get(place, ca_pem_, &end_);
  if (!text.ok()) return text.status();
  const Json document = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || document.value("issuer", Json()) != Json(issuer_))
    return absl::UnavailableError(absl::StrCat(place, " is not the document of issuer ", issuer_));
  const std::string keys_place = PlaceOf(document, "jwks_uri");
  if (keys_place.empty())
    return absl::UnavailableError(absl::StrCat(place, " has no jwks_uri that is an https:// URL"));
  absl::StatusOr<std::string> keys_text = Get(keys_place, ca_pem_, &end_);
  if (!keys_text.ok()) return keys_text.status();
  absl::StatusOr<KeySet> keys = KeySet::Read(*keys_text);
  if (!keys.ok()) return keys.status();
  return Fetched{*std::move(keys_text),
                 std::make_shared<const KeySet>(*std::move(keys)),
                 {PlaceOf(document, "authorization_endpoint"), PlaceOf(document, "token_endpoint")}};
}

void IssuerKeys::Run() {
  Backoff backoff(times_.retry, kLongestRetry);
  std::unique_lock<std::mutex> lock(mutex_);
  absl::Time next = SteadyNow();
  while (!is_stopping_) {
    if (!is_wanted_ && SteadyNow() < next) {
      changed_.wait_until(lock, ToSteadyClock(next));
      continue;
    }
    is_wanted_ = false;
    asked_ = SteadyNow();
    lock.unlock();
    absl::StatusOr<Fetched> fetched = Fetch();
    lock.lock();
    if (absl::IsCancelled(fetched.status())) return;
    if (fetched.ok()) backoff.Reset();
    next = SteadyNow() + (fetched.ok() ? times_.interval : backoff.Next());
    Keep(std::move(fetched));
  }
}

void IssuerKeys::Keep(absl::StatusOr<Fetched> fetched) {
  metrics_->CountKeyFetch(name_, fetched.ok());
  if (!fetched.ok()) {
    if (last_.message() != fetched.status().message())
      spdlog::warn("issuer {}: its keys cannot be fetched: {}", name_, std::string(fetched.status().message()));
    last_ = fetched.status();
    return;
  }
  if (fetched_.keys_text != fetched->keys_text) {
    ++revision_;
    spdlog::info("issuer {}: {} keys are taken from {}", name_, fetched->keys->size(), issuer_);
  }
  last_ = absl::OkStatus();
  answered_ = SteadyNow();
  metrics_->ShowKeys(name_, fetched->keys->size());
  fetched_ = *std::move(fetched);
}

bool IssuerKeys::AskAgain() {
  if (is_wanted_) return true;
  // A request that is under way has not answered since it was asked.
  if (asked_ > answered_ && last_.ok()) return true;
  if (SteadyNow() < asked_ + times_.least) return false;
  is_wanted_ = true;
  changed_.notify_all();
  return true;
}

absl::Status IssuerKeys::Check(const std::string& text, const SignedToken& token) {
  std::shared_ptr<const KeySet> keys;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fetched_.keys == nullptr || SteadyNow() > answered_ + times_.kept) {
      AskAgain();
      return absl::UnavailableError(
          absl::StrCat("the keys of issuer ", name_, " are not known: ", last_.message(), "; retry"));
    }
    keys = fetched_.keys;
  }
  absl::Status status = keys->Check(text, token);
  if (!absl::IsNotFound(status)) return status;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (fetched_.keys != keys || AskAgain())
    return absl::UnavailableError(absl::StrCat(status.message(), ", which is asked for them again; retry"));
  return absl::UnauthenticatedError(status.message());
}

absl::StatusOr<SignInPlaces> IssuerKeys::sign_in_places() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!fetched_.places.authorization.empty() && !fetched_.places.token.empty()) return fetched_.places;
  return absl::UnavailableError(absl::StrCat("issuer ", name_, " has not said yet where people sign in",
                                             last_.ok() ? "" : ": ", last_.message()));
}

uint64_t IssuerKeys::revision() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return revision_;
}

}  // namespace farandole
