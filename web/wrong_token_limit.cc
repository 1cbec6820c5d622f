#include "web/wrong_token_limit.h"

#include <algorithm>

#include "base/text/client_network.h"

namespace farandole {

double WrongTokenLimit::Debt::Left(absl::Time now) const {
  return std::max(0.0, count - kPerSecond * absl::ToDoubleSeconds(now - at));
}

bool WrongTokenLimit::MayTry(const std::string& peer, absl::Time now) const {
  const auto found = debts_.find(ClientNetwork(peer));
  return found == debts_.end() || found->second.Left(now) <= kBurst - 1;
}

void WrongTokenLimit::CountWrong(const std::string& peer, absl::Time now) {
  const std::string client = ClientNetwork(peer);
  if (debts_.size() >= kMostPeers && !debts_.contains(client)) {
    const auto least = std::min_element(debts_.begin(), debts_.end(), [&](const auto& a, const auto& b) {
      return a.second.Left(now) < b.second.Left(now);
    });
    debts_.erase(least);
  }
  Debt& debt = debts_[client];
  debt.count = debt.Left(now) + 1;
  debt.at = now;
}

}  // namespace farandole
