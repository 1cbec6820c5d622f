#include "server/job/members/dropped_events.h"

namespace farandole {

void DroppedEvents::Set(uint64_t epoch, uint32_t rank, uint64_t dropped) {
  if (epoch != epoch_) {
    before_ = Sum();
    of_rank_.clear();
    epoch_ = epoch;
  }
  of_rank_[rank] = dropped;
}

uint64_t DroppedEvents::Sum() const {
  uint64_t sum = before_;
  for (const auto& [rank, dropped] : of_rank_) sum += dropped;
  return sum;
}

}  // namespace farandole
