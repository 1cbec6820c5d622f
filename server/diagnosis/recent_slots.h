#ifndef FARANDOLE_SERVER_DIAGNOSIS_RECENT_SLOTS_H_
#define FARANDOLE_SERVER_DIAGNOSIS_RECENT_SLOTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace farandole {

// The last 30 to 40 seconds in four slots of ten, for sums that are of no use in finer steps.
class RecentSlots {
 public:
  static constexpr absl::Duration kSlot = absl::Seconds(10);
  static constexpr size_t kSlots = 4;

  // Goes on to the slot of that time since the beginning, and calls `clear(slot)` for each that begins anew.
  template <typename Clear>
  void Advance(absl::Duration since_began, const Clear& clear) {
    const int64_t number = std::max<int64_t>(0, since_began / kSlot);
    for (int64_t next = std::max(number_ + 1, number - static_cast<int64_t>(kSlots) + 1); next <= number; ++next)
      clear(static_cast<size_t>(next) % kSlots);
    number_ = std::max(number_, number);
  }
  size_t slot() const { return static_cast<size_t>(number_) % kSlots; }

 private:
  int64_t number_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_RECENT_SLOTS_H_
