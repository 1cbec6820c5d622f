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

  // Of several ranks in the same time: the mean of those that were measured, and the most of them.
  class Together;
};

class RollUp::Together {
 public:
  void Add(const RollUp& rank);
  RollUp Value() const;

 private:
  RollUp mean_;
  uint64_t count_ = 0;
  uint64_t waited_ = 0;
  uint64_t transfer_ = 0;
  uint64_t cpu_ = 0;
};

// The traffic of a host's network in some seconds; it lies in the store likewise.
struct NetworkRollUp {
  // As RollUp's.
  uint16_t tenths = 0;
  uint16_t unused = 0;
  uint32_t retransmits = 0;
  // Bytes a second, on average.
  float received = 0;
  float sent = 0;

  void Add(const NetworkRollUp& later);

  // Of several hosts in the same time: their sums.
  class Together;
};

class NetworkRollUp::Together {
 public:
  void Add(const NetworkRollUp& host);
  NetworkRollUp Value() const { return sum_; }

 private:
  NetworkRollUp sum_;
};

// The number, or the greatest that a roll-up's field can have.
inline uint16_t Saturated(uint64_t number) { return static_cast<uint16_t>(std::min<uint64_t>(number, 65535)); }
static_assert(sizeof(RollUp) == 16 && sizeof(NetworkRollUp) == 16, "rows of the store have 16 bytes for each");

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_ROLL_UP_H_
