#include "server/job/members/estranged_hosts.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// A host that is not estranged again for so long after its wait begins anew with the least.
constexpr absl::Duration kForgiven = absl::Minutes(2);

}  // namespace

void EstrangedHosts::Add(const std::string& host_id, absl::Time now) {
  for (auto host = hosts_.begin(); host != hosts_.end();) {
    host = host->second.until + kForgiven <= now ? hosts_.erase(host) : std::next(host);
  }
  const auto [host, is_new] = hosts_.try_emplace(host_id, Wait{now + kLeast, kLeast});
  // Its other workers are lost with the first.
  if (!is_new && host->second.until <= now) {
    host->second.length = std::min(2 * host->second.length, kMost);
    host->second.until = now + host->second.length;
  }
  if (hosts_.size() > kMostHosts) {
    hosts_.erase(std::min_element(hosts_.begin(), hosts_.end(), [](const auto& one, const auto& other) {
      return one.second.until < other.second.until;
    }));
  }
}

std::string EstrangedHosts::Sentence(const std::string& host_id, absl::Time now) const {
  const auto host = hosts_.find(host_id);
  if (host == hosts_.end() || host->second.until <= now) return "";
  return absl::StrCat("workers on other hosts could not reach its host, which waits for ",
                      ShowDuration(host->second.length), " after that");
}

}  // namespace farandole
