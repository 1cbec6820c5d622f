#ifndef FARANDOLE_SERVER_DIAGNOSIS_ROLL_UP_H_
#define FARANDOLE_SERVER_DIAGNOSIS_ROLL_UP_H_

#include <algorithm>
#include <cstdint>

namespace farandole {

// The work and the waits of a rank in some seconds. As it lies in memory it lies in the store, in the order of bytes of
// all processors that this runs on.
struct RollUp {
  // Tenths of a second that were measured; 0: nothing was.
  uint16_t tenths = 0;
  // Shares of the time in thousandths: on average, and the most of half a second.
  uint16_t waited = 0;
  uint16_t most_waited = 0;
  uint16_t transfer = 0;
  uint16_t most_transfer = 0;
  uint16_t cpu = 0;
  uint32_t steps = 0;

  // Puts later seconds of the same rank to these.
  void Add(const RollUp& later);
};
// The number, or the greatest that a roll-up's field can have.
inline uint16_t Saturated(uint64_t number) { return static_cast<uint16_t>(std::min<uint64_t>(number, 65535)); }
static_assert(sizeof(RollUp) == 16, "rows of the store have 16 bytes for each");

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_ROLL_UP_H_
