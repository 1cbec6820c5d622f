#ifndef FARANDOLE_SERVER_DIAGNOSIS_ROLL_UP_H_
#define FARANDOLE_SERVER_DIAGNOSIS_ROLL_UP_H_

#include <algorithm>
#include <cstdint>
#include <optional>

namespace farandole {

// The work and the waits of a rank in some seconds. As it lies in memory it lies in the store, in the order of bytes of
// all processors that this runs on. Shares are in thousandths, which 10 bits hold; the words' upper bits have the GPU's
// shares, and are 0 in rows of versions that knew none: then these are not known.
struct RollUp {
  RollUp() : RollUp(0, 0, 0, 0, 0, 0, 0) {}
  // Larger shares than the whole count as that.
  RollUp(uint16_t tenths, uint16_t waited, uint16_t most_waited, uint16_t transfer, uint16_t most_transfer,
         uint16_t cpu, uint32_t steps)
      : tenths(tenths),
        waited(Share(waited)),
        busy_low(0),
        most_waited(Share(most_waited)),
        busy_high(0),
        transfer(Share(transfer)),
        memory_low(0),
        most_transfer(Share(most_transfer)),
        memory_high(0),
        cpu(cpu),
        steps(steps) {}

  // Tenths of a second that were measured; 0: nothing was.
  uint16_t tenths;
  // Shares of the time in thousandths: on average, and the most of half a second.
  uint16_t waited : 10;
  uint16_t busy_low : 6;
  uint16_t most_waited : 10;
  uint16_t busy_high : 6;
  uint16_t transfer : 10;
  uint16_t memory_low : 6;
  uint16_t most_transfer : 10;
  uint16_t memory_high : 6;
  uint16_t cpu;
  uint32_t steps;

  // How much of the time the GPU was busy, and how much of its memory was in use, in thousandths; nullopt: not known.
  std::optional<uint16_t> gpu() const { return Read(busy_low, busy_high); }
  std::optional<uint16_t> gpu_memory() const { return Read(memory_low, memory_high); }
  void SetGpu(std::optional<uint16_t> share) {
    const uint16_t word = WordOf(share);
    busy_low = word & 63;
    busy_high = static_cast<uint16_t>(word >> 6);
  }
  void SetGpuMemory(std::optional<uint16_t> share) {
    const uint16_t word = WordOf(share);
    memory_low = word & 63;
    memory_high = static_cast<uint16_t>(word >> 6);
  }

  // Puts later seconds of the same rank to these.
  void Add(const RollUp& later);

  // Joins several ranks in the same time: the mean of those that were measured, and the most of them.
  class Together;

 private:
  static constexpr uint16_t kWhole = 1000;

  static uint16_t Share(uint16_t thousandths) { return std::min(thousandths, kWhole); }
  // One more than the share; 0: there is none.
  static uint16_t WordOf(std::optional<uint16_t> share) {
    return share.has_value() ? static_cast<uint16_t>(Share(*share) + 1) : 0;
  }
  static std::optional<uint16_t> Read(uint16_t low, uint16_t high) {
    const uint32_t word = low + (uint32_t{high} << 6);
    if (word == 0) return std::nullopt;
    return Share(static_cast<uint16_t>(word - 1));
  }
};

// The mean of shares, of which some are not known.
class MeanShare {
 public:
  void Add(std::optional<uint16_t> share, uint64_t weight = 1) {
    if (!share.has_value()) return;
    sum_ += *share * weight;
    weight_ += weight;
  }
  std::optional<uint16_t> Value() const {
    if (weight_ == 0) return std::nullopt;
    return static_cast<uint16_t>((sum_ + weight_ / 2) / weight_);
  }

 private:
  uint64_t sum_ = 0;
  uint64_t weight_ = 0;
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
  // Of those of which it is known.
  MeanShare gpu_;
  MeanShare gpu_memory_;
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

  // Joins several hosts in the same time: their sums.
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
