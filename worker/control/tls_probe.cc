#include "worker/control/tls_probe.h"

#include <poll.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/steady_time.h"
#include "worker/control/tls_trial.h"

namespace farandole {
namespace {

// A better way that answers so soon after the first is taken instead.
constexpr absl::Duration kSecondThought = absl::Milliseconds(200);

using Trials = std::vector<std::unique_ptr<TlsTrial>>;

// Lets all go on until `deadline`, or until `is_enough` after a trial's end, which may bring the deadline nearer.
template <typename IsEnough>
void RunTrials(const Trials& trials, absl::Time deadline, IsEnough is_enough) {
  for (const auto& trial : trials) trial->Go();
  for (;;) {
    if (is_enough(&deadline)) return;
    std::vector<pollfd> waiting;
    std::vector<TlsTrial*> waiters;
    for (const auto& trial : trials) {
      if (trial->is_over()) continue;
      waiting.push_back(pollfd{trial->fd(), trial->events(), 0});
      waiters.push_back(trial.get());
    }
    const absl::Duration left = deadline - SteadyNow();
    if (waiting.empty() || left <= absl::ZeroDuration()) return;
    const auto patience_ms = static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
    if (poll(waiting.data(), waiting.size(), patience_ms) < 0) continue;
    for (size_t i = 0; i < waiters.size(); ++i) {
      if (waiting[i].revents != 0) waiters[i]->Go();
    }
  }
}

absl::StatusOr<std::string> FindProvenOne(const std::vector<std::string>& addresses, const std::string& ca_pem,
                                          absl::Duration timeout) {
  Trials trials;
  for (const std::string& address : addresses) {
    trials.push_back(std::make_unique<TlsTrial>(TlsQuestion{address, ca_pem, "the launcher's certificate"}));
  }
  const auto is_proven = [](const std::unique_ptr<TlsTrial>& trial) {
    return trial->is_over() && trial->status().ok();
  };
  bool has_one = false;
  RunTrials(trials, SteadyNow() + timeout, [&](absl::Time* deadline) {
    if (!has_one && std::any_of(trials.begin(), trials.end(), is_proven)) {
      has_one = true;
      *deadline = std::min(*deadline, SteadyNow() + kSecondThought);
    }
    return !trials.empty() && is_proven(trials[0]);
  });
  const auto best = std::find_if(trials.begin(), trials.end(), is_proven);
  if (best != trials.end()) return (*best)->address();
  return absl::UnavailableError(
      absl::StrJoin(trials, "; ", [](std::string* out, const std::unique_ptr<TlsTrial>& trial) {
        absl::StrAppend(out, trial->address(), ": ", std::string(trial->status().message()));
      }));
}

struct Handshakes {
  absl::Status without;
  // With the client's certificate; nullopt: it has none, or its handshake was not over in time.
  std::optional<absl::Status> own;
};

Handshakes ShakeHands(const TlsQuestion& question, absl::Time deadline) {
  const bool has_own = !question.cert_pem.empty();
  TlsQuestion own = question;
  own.awaits_word = has_own;
  TlsQuestion without = own;
  without.cert_pem = without.key_pem = "";
  Trials trials;
  trials.push_back(std::make_unique<TlsTrial>(without));
  if (has_own) trials.push_back(std::make_unique<TlsTrial>(own));
  RunTrials(trials, deadline, [](absl::Time*) { return false; });
  Handshakes found{trials[0]->status(), std::nullopt};
  if (has_own && trials[1]->is_over()) found.own = trials[1]->status();
  return found;
}

bool HasLetter(const std::string& address) {
  return std::any_of(address.begin(), address.end(),
                     [](char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)); });
}

}  // namespace

absl::Status FindTlsFault(const TlsQuestion& question, absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  Handshakes found = ShakeHands(question, deadline);
  // A coordinator that refuses a certificate may just close the connection, as one that stops does: only twice tells.
  if (found.without.ok() && found.own.has_value() && absl::IsUnavailable(*found.own))
    found = ShakeHands(question, deadline);
  // A proxy may want a certificate of every client: then the handshake without one has failed, and nothing is wrong.
  if (found.own.has_value() && found.own->ok()) return absl::OkStatus();
  if (!found.without.ok() || !found.own.has_value())
    return absl::IsUnavailable(found.without) ? absl::OkStatus() : found.without;
  // It takes a client that shows no certificate, so that this one is the cause.
  return absl::UnauthenticatedError(absl::StrCat(
      "coordinator ", question.address, " does not accept the certificate in ", question.cert_origin,
      ", which must descend from an authority of its --client-ca and be valid now (", found.own->message(), ")"));
}

absl::StatusOr<std::string> FindProvenAddress(const std::vector<std::string>& addresses, const std::string& ca_pem,
                                              absl::Duration timeout) {
  // A name's look-up may take seconds, and blocks.
  std::vector<std::string> sorted = addresses;
  const auto names = std::stable_partition(sorted.begin(), sorted.end(),
                                           [](const std::string& a) { return a[0] == '[' || !HasLetter(a); });
  const std::vector<std::string> numbers(sorted.begin(), names);
  const absl::StatusOr<std::string> by_number = FindProvenOne(numbers, ca_pem, timeout / 2);
  if (by_number.ok() || names == sorted.end()) return by_number;
  const absl::StatusOr<std::string> by_name = FindProvenOne({names, sorted.end()}, ca_pem, timeout / 2);
  if (by_name.ok() || numbers.empty()) return by_name;
  return absl::UnavailableError(absl::StrCat(by_number.status().message(), "; ", by_name.status().message()));
}

}  // namespace farandole
