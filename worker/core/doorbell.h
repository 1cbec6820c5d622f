#ifndef FARANDOLE_WORKER_CORE_DOORBELL_H_
#define FARANDOLE_WORKER_CORE_DOORBELL_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace farandole {

// The threads that attend to a rank's doorbell; the bits are futex bitsets, so that a ring wakes the right thread only.
enum class Attention : uint32_t {
  // A thread of the rank polls: no thread needs to be woken.
  kPolling = 0,
  // The thread that has the engine's role sleeps.
  kDriverAsleep = 1,
  // The data thread sleeps, and there is work that others may complete.
  kDataThreadAsleep = 2,
  // The data thread sleeps, and nothing that peers do concerns the rank before its own next submission: only Summon
  // wakes it.
  kUnconcerned = 4,
};

// One rank's bell, in memory that its peers share (or that is private where all ranks are one process). Peers publish
// data with a sequentially consistent store and then ring; the owner states which threads to wake, checks the data once
// more and sleeps. A futex wake is paid only if a thread sleeps. Thread-safe. The memory is zero at first.
class alignas(64) Doorbell {
 public:
  // Peers: something was published that may concern the owner.
  void Ring() {
    uint32_t attention = attention_.load();
    if (attention == 1 || attention == 2) Wake();
  }
  // As Ring, and wakes the data thread also if the rank was unconcerned.
  void Summon() {
    if (attention_.load() != 0) Wake();
  }
  // Owner's process: wakes all sleeping threads, in any state of attention.
  void RingAll();

  // Owner: says who attends from now on. Check the data after it and before Sleep.
  void SetAttention(Attention attention) {
    // Peers look at the word with all that they publish, so it is not written without need.
    const uint32_t wanted = static_cast<uint32_t>(attention);
    if (attention_.load() != wanted) attention_.store(wanted);
  }
  // Owner: a thread polls from now on. kUnconcerned stays, because peers' rings wake no thread in that state either. So
  // a rank that waits for each of its submissions never writes the word, which peers read.
  void BeginPolling() {
    if (attention_.load() != static_cast<uint32_t>(Attention::kUnconcerned)) SetAttention(Attention::kPolling);
  }
  // Owner, any thread: if the rank was unconcerned, rings wake its data thread from now on.
  void Concern() {
    uint32_t unconcerned = static_cast<uint32_t>(Attention::kUnconcerned);
    if (attention_.load() == unconcerned) {
      attention_.compare_exchange_strong(unconcerned, static_cast<uint32_t>(Attention::kDataThreadAsleep));
    }
  }
  // Owner: says on which CPU the caller runs. Writes only changed words, as peers read the line.
  void StateCpu();
  // The CPU that the owner stated last; -1: none so far.
  int cpu() const { return static_cast<int>(cpu_.load()) - 1; }
  // Owner: read it before the last check of the data.
  uint32_t Ticket() const { return bell_.load(); }
  // Owner: sleeps until a ring that came after `ticket` was read, at most `limit`. `who` is kDriverAsleep or
  // kDataThreadAsleep.
  void Sleep(uint32_t ticket, Attention who, absl::Duration limit);

 private:
  void Wake();

  std::atomic<uint32_t> bell_;
  std::atomic<uint32_t> attention_;
  // Its number + 1.
  std::atomic<uint32_t> cpu_;
};

static_assert(sizeof(Doorbell) == 64, "a doorbell fills its cache line");

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CORE_DOORBELL_H_
