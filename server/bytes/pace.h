#ifndef FARANDOLE_SERVER_BYTES_PACE_H_
#define FARANDOLE_SERVER_BYTES_PACE_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace farandole {

// How fast one tenant's messages are read: a token bucket (RFC 3290, 5.1.3). Reading and parsing a message, and the
// Step that takes it, cost processor time in proportion to the message's bytes in memory; so bytes in a second stand
// for a part of the coordinator's time. All streams and calls of the tenant take from one bucket. Each takes at once
// and waits afterwards, so that those who wait go on in the order in which they came. Thread-safe, without a lock.
class Pace {
 public:
  // `bytes_per_second` > 0. A bucket that is full has `burst` bytes; at first it is full.
  Pace(int64_t bytes_per_second, int64_t burst);

  // Takes the bytes of a message that has been read; negative ones go back. Returns how long whoever sent it has to
  // wait before the next one is read; zero while the bucket is not empty. `now` is of a clock that does not step
  // (SteadyNow).
  absl::Duration Take(int64_t bytes, absl::Time now);

  // How long a message that came now would have to wait; takes nothing.
  absl::Duration Wait(absl::Time now) const;

  // Messages after which their streams waited.
  uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }

 private:
  const int64_t bytes_per_second_;
  // How long it takes to fill the bucket.
  const int64_t burst_ns_;
  // The time until which all that was taken is paid for, in nanoseconds of the clock.
  std::atomic<int64_t> paid_ns_;
  std::atomic<uint64_t> waits_{0};
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_BYTES_PACE_H_
