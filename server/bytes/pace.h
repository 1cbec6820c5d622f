#ifndef FARANDOLE_SERVER_BYTES_PACE_H_
#define FARANDOLE_SERVER_BYTES_PACE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/time/time.h"

namespace farandole {

// How fast one tenant's messages are read: a token bucket (RFC 3290, 5.1.3). Reading and parsing a message, and the
// Step that takes it, cost processor time in proportion to the message's bytes in memory; so bytes in a second stand
// for a part of the coordinator's time. All streams and calls of the tenant take from one bucket. Each takes at once
// and waits afterwards, so that those who wait go on in the order in which they came. Thread-safe, without a lock.
class Pace {
 public:
  // `bytes_per_second` > 0. A bucket that is full has `burst` bytes; at first it is full. No more than `most_owed` is
  // ever owed, whatever is taken: nobody waits for longer than that takes.
  Pace(int64_t bytes_per_second, int64_t burst, int64_t most_owed);
  Pace(int64_t bytes_per_second, int64_t burst) : Pace(bytes_per_second, burst, burst) {}

  // One of those that wait at a time for their parts of the pace, as long as it lives.
  class Waiter {
   public:
    explicit Waiter(std::shared_ptr<Pace> pace) : pace_(std::move(pace)) { pace_->waiters_.fetch_add(1); }
    ~Waiter() { pace_->waiters_.fetch_sub(1); }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    const std::shared_ptr<Pace> pace_;
  };

  // Takes the bytes of a message that has been read; negative ones go back. Returns how long whoever sent it has to
  // wait before the next one is read; zero while the bucket is not empty. `now` is of a clock that does not step
  // (SteadyNow).
  absl::Duration Take(int64_t bytes, absl::Time now);

  // How long it takes to pay for so many bytes, where all that wait pay alike.
  absl::Duration TimeOfPart(int64_t bytes) const;

  // How long a message that came now would have to wait; takes nothing.
  absl::Duration Wait(absl::Time now) const;

  // Messages after which their streams waited.
  uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }

 private:
  const int64_t bytes_per_second_;
  // How long it takes to fill the bucket.
  const int64_t burst_ns_;
  const int64_t most_owed_ns_;
  // The time until which all that was taken is paid for, in nanoseconds of the clock.
  std::atomic<int64_t> paid_ns_;
  std::atomic<uint64_t> waits_{0};
  std::atomic<int64_t> waiters_{0};
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_BYTES_PACE_H_
