#include "server/job/members/fence.h"

namespace farandole {

void Fence::Shut(const std::string& incarnation, const std::string& reason) {
  if (last_reason_ == nullptr || *last_reason_ != reason) last_reason_ = std::make_shared<const std::string>(reason);
  if (!reasons_.try_emplace(incarnation, last_reason_).second) return;
  oldest_first_.push_back(incarnation);
  if (oldest_first_.size() <= kMostIncarnations) return;
  reasons_.erase(oldest_first_.front());
  dismissed_.erase(oldest_first_.front());
  oldest_first_.pop_front();
}

void Fence::Dismiss(const std::string& incarnation, const std::string& reason) {
  Shut(incarnation, reason);
  dismissed_.insert(incarnation);
}

const std::string* Fence::ReasonFor(const std::string& incarnation) const {
  const auto it = reasons_.find(incarnation);
  return it == reasons_.end() ? nullptr : it->second.get();
}

}  // namespace farandole
