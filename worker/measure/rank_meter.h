#ifndef FARANDOLE_WORKER_MEASURE_RANK_METER_H_
#define FARANDOLE_WORKER_MEASURE_RANK_METER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "worker/measure/rank_record.h"

namespace farandole {

// Writes a rank's RankRecord. It reads no clock: its callers have the time already, so that a small collective costs
// some plain stores more. Owned by the rank's Engine; each method says under what it is called.
class RankMeter {
 public:
  // `shared` outlives it; null: the record is seen by nobody else.
  explicit RankMeter(RankRecord* shared) : record_(shared != nullptr ? *shared : own_) {}
  RankMeter(const RankMeter&) = delete;
  RankMeter& operator=(const RankMeter&) = delete;

  // A thread of the program that waits, from any thread. Where several wait at a time, each counts.
  class Wait {
   public:
    Wait(RankMeter* meter, int64_t now_ns)
        : record_(meter->record_), began_ns_(now_ns), batch_ns_(record_.batch_ns.load(std::memory_order_relaxed)) {
      record_.waiting_since_ns.store(now_ns, std::memory_order_relaxed);
      if (record_.stuck_since_ns.load(std::memory_order_relaxed) == 0)
        record_.stuck_since_ns.store(now_ns, std::memory_order_relaxed);
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    // `is_over`: with its result.
    void End(bool is_over, int64_t now_ns) {
      record_.waiting_since_ns.store(0, std::memory_order_relaxed);
      if (is_over) record_.stuck_since_ns.store(0, std::memory_order_relaxed);
      record_.waited_ns.fetch_add(now_ns - began_ns_, std::memory_order_relaxed);
      const int64_t ran_ns = record_.batch_ns.load(std::memory_order_relaxed) - batch_ns_;
      // A collective may have begun before the wait.
      if (ran_ns > 0)
        record_.waited_in_batch_ns.fetch_add(std::min(ran_ns, now_ns - began_ns_), std::memory_order_relaxed);
    }
    // The same of a wait that is over, in which no collective ran, and that a few looks have ended. It stands for
    // `weight` waits, as WaitSampler says; 0: another one stands for it, and the time does not matter.
    void EndSampled(int weight, int64_t now_ns) {
      record_.waiting_since_ns.store(0, std::memory_order_relaxed);
      record_.stuck_since_ns.store(0, std::memory_order_relaxed);
      if (weight == 0) return;
      const int64_t ns = now_ns - began_ns_;
      const int64_t usual_ns = std::min(ns, kLongestUsualNs);
      record_.waited_ns.fetch_add(weight * usual_ns + ns - usual_ns, std::memory_order_relaxed);
    }

   private:
    // A few looks take a microsecond. In a longer wait the thread was stopped meanwhile, and the others were not.
    static constexpr int64_t kLongestUsualNs = 10'000;

    RankRecord& record_;
    const int64_t began_ns_;
    const int64_t batch_ns_;
  };

  // The engine's role.
  void BeginBatch(int64_t now_ns, uint32_t slot) {
    record_.batch_slot.store(slot, std::memory_order_relaxed);
    record_.batch_since_ns.store(now_ns, std::memory_order_relaxed);
  }
  void EndBatch(int64_t began_ns, int64_t now_ns) {
    record_.batch_since_ns.store(0, std::memory_order_relaxed);
    record_.batch_ns.store(record_.batch_ns.load(std::memory_order_relaxed) + now_ns - began_ns,
                           std::memory_order_relaxed);
  }

  // The table's lock. A submission under a name is over, which was last counted in the step `*seen`.
  void Count(bool is_named, uint64_t* seen) {
    std::atomic<uint64_t>& steps = is_named ? record_.named_steps : record_.unnamed_steps;
    const uint64_t step = steps.load(std::memory_order_relaxed);
    if (*seen == step) steps.store(step + 1, std::memory_order_relaxed);
    *seen = steps.load(std::memory_order_relaxed);
  }
  void Submitted(uint32_t slot) { record_.last_slot.store(slot, std::memory_order_relaxed); }

  // Any thread: for how long threads of the program have waited, a wait that goes on included.
  int64_t WaitedNs(int64_t now_ns) const {
    const int64_t since_ns = record_.waiting_since_ns.load(std::memory_order_relaxed);
    const int64_t waiting_ns = since_ns == 0 ? 0 : std::max<int64_t>(0, now_ns - since_ns);
    return record_.waited_ns.load(std::memory_order_relaxed) + waiting_ns;
  }

  const RankRecord& record() const { return record_; }
  RankRecord& record() { return record_; }
  // As StepsOf.
  uint64_t steps() const;

 private:
  RankRecord own_ = {};
  RankRecord& record_;
};

// Steps by the names that the program has given, if some of them come again; else by all names.
inline uint64_t StepsOf(const RankRecord& record) {
  const uint64_t named = record.named_steps.load(std::memory_order_relaxed);
  return named > 1 ? named : record.unnamed_steps.load(std::memory_order_relaxed);
}

inline uint64_t RankMeter::steps() const { return StepsOf(record_); }

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEASURE_RANK_METER_H_
