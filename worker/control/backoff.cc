#include "worker/control/backoff.h"

#include <algorithm>

namespace farandole {

Backoff::Backoff(absl::Duration initial, absl::Duration longest)
    : initial_(initial), longest_(longest), current_(initial) {}

absl::Duration Backoff::Next() {
  const absl::Duration delay = current_ * absl::Uniform(absl::IntervalClosed, random_, 0.5, 1.0);
  current_ = std::min(current_ * 2, longest_);
  return delay;
}

void Backoff::Reset() { current_ = initial_; }

}  // namespace farandole
