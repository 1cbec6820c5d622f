#include "server/job/members/wanted_change.h"

namespace farandole {

bool WantedChange::IsDue(size_t joining, size_t leaving, absl::Time now) {
  if (joining <= joining_told_) {
    window_end_ = absl::InfiniteFuture();
  } else if (window_end_ == absl::InfiniteFuture()) {
    window_end_ = now + join_window_;
  }
  return leaving > leaving_told_ || window_end_ <= now;
}

const v1::CoordinatorMessage& WantedChange::Tell(size_t joining, const std::vector<uint32_t>& leaving,
                                                 const std::string& sentence) {
  joining_told_ = joining;
  leaving_told_ = leaving.size();
  window_end_ = absl::InfiniteFuture();
  told_.emplace();
  v1::ChangeWanted* wanted = told_->mutable_change_wanted();
  wanted->set_epoch(epoch_);
  wanted->set_serial(++serial_);
  wanted->set_joining(joining);
  wanted->mutable_leaving()->Assign(leaving.begin(), leaving.end());
  wanted->set_sentence(sentence);
  return *told_;
}

}  // namespace farandole
