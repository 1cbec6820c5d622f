#include "base/backoff.h"

#include <algorithm>

namespace farandole {

Backoff::Backoff(absl::Duration initial, absl::Duration longest)
    : initial_(initial), longest_(longest), current_(initial) {}

absl::Duration Backoff::Next() {
  const absl::Duration delay = current_ * std::uniform_real_distribution<double>(0.5, 1.0)(random_);
  current_ = std::min(current_ * 2, longest_);
  return delay;
}

void Backoff::Reset() { current_ = initial_; }

}  // namespace farandole
