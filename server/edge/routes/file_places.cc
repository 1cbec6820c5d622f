#include "server/edge/routes/file_places.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {

// Gives itself back at its end.
class FilePlaces::Place {
 public:
  Place(std::shared_ptr<Taken> taken, std::string tenant, size_t count)
      : taken_(std::move(taken)), tenant_(std::move(tenant)), count_(count) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    const std::lock_guard<std::mutex> lock(taken_->mutex);
    const auto found = taken_->tenants.find(tenant_);
    if ((found->second -= count_) == 0) taken_->tenants.erase(found);
  }

 private:
  const std::shared_ptr<Taken> taken_;
  const std::string tenant_;
  const size_t count_;
};

std::shared_ptr<const void> FilePlaces::Occupy(const std::string& tenant, size_t count) {
  const std::lock_guard<std::mutex> lock(taken_->mutex);
  const auto found = taken_->tenants.find(tenant);
  const size_t taken = found == taken_->tenants.end() ? 0 : found->second;
  if (count == 0 || (taken > 0 && (taken >= most_ || count > most_ - taken))) return nullptr;
  taken_->tenants[tenant] = taken + count;
  return std::make_shared<const Place>(taken_, tenant, count);
}

HttpReply FilePlaces::Refusal(const std::string& tenant) const {
  HttpReply reply = HttpError(429, absl::StrCat("tenant ", tenant, " has ", most_, " of its ", kind_,
                                                " under way, which is the most at a time; try again in some seconds"));
  reply.headers.emplace_back("Retry-After", "5");
  return reply;
}

std::optional<HttpAnswer> FilePlaces::Take(const HttpIdentity& identity, HttpAnswer answer) {
  std::shared_ptr<const void> place = Occupy(identity.tenant, 1);
  if (place == nullptr) {
    answer(Refusal(identity.tenant));
    return std::nullopt;
  }
  // shared: by the answer's copies. The one that is called takes the place out, so that no other copy holds it longer.
  const auto held = std::make_shared<std::shared_ptr<const void>>(std::move(place));
  return [held, tenant = identity.tenant, answer = std::move(answer)](HttpReply reply) {
    reply.held = std::exchange(*held, nullptr);
    reply.turn_of = tenant;
    reply.is_long = true;
    answer(std::move(reply));
  };
}

HttpReply FilePlaces::Fit(const HttpIdentity& identity, HttpReply reply) {
  if (reply.body.empty()) return reply;
  Hold(identity, reply.body.size(), &reply);
  return reply;
}

bool FilePlaces::Hold(const HttpIdentity& identity, size_t count, HttpReply* reply) {
  reply->held = Occupy(identity.tenant, count);
  if (reply->held != nullptr) return true;
  *reply = Refusal(identity.tenant);
  return false;
}

}  // namespace farandole
