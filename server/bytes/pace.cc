#include "server/bytes/pace.h"

#include <algorithm>
#include <limits>

namespace farandole {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// How long it takes to get so many bytes.
int64_t TimeOf(int64_t bytes, int64_t bytes_per_second) {
  return static_cast<int64_t>(static_cast<double>(bytes) * kSecond / static_cast<double>(bytes_per_second));
}

}  // namespace

Pace::Pace(int64_t bytes_per_second, int64_t burst, int64_t most_owed)
    : bytes_per_second_(bytes_per_second),
      burst_ns_(TimeOf(burst, bytes_per_second)),
      most_owed_ns_(TimeOf(most_owed, bytes_per_second)),
      paid_ns_(std::numeric_limits<int64_t>::min()) {}

absl::Duration Pace::Take(int64_t bytes, absl::Time now) {
  const int64_t cost = TimeOf(bytes, bytes_per_second_);
  const int64_t now_ns = absl::ToUnixNanos(now);
  int64_t paid = paid_ns_.load(std::memory_order_relaxed);
  int64_t next = 0;
  do {
    next = std::min(std::max(paid, now_ns - burst_ns_) + cost, now_ns + most_owed_ns_);
  } while (!paid_ns_.compare_exchange_weak(paid, next, std::memory_order_relaxed));
  if (next <= now_ns) return absl::ZeroDuration();
  waits_.fetch_add(1, std::memory_order_relaxed);
  return absl::Nanoseconds(next - now_ns);
}

absl::Duration Pace::TimeOfPart(int64_t bytes) const {
  const int64_t waiters = std::max<int64_t>(1, waiters_.load(std::memory_order_relaxed));
  return absl::Nanoseconds(TimeOf(bytes, bytes_per_second_)) * waiters;
}

absl::Duration Pace::Wait(absl::Time now) const {
  const int64_t paid = paid_ns_.load(std::memory_order_relaxed);
  const int64_t now_ns = absl::ToUnixNanos(now);
  return paid <= now_ns ? absl::ZeroDuration() : absl::Nanoseconds(paid - now_ns);
}

}  // namespace farandole
