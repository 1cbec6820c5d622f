#include "worker/core/doorbell.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace farandole {

void Doorbell::Wake() {
  // The ring that exchanges the value away pays for the wake; later rings find the rank awake. It wakes the threads
  // that this value names, which may differ from those that the caller saw.
  const uint32_t attention = attention_.exchange(0);
  if (attention == 0) return;
  bell_.fetch_add(1);
  // kUnconcerned sleeps as the data thread.
  const uint32_t bits = attention == 1 ? 1 : 2;
  syscall(SYS_futex, &bell_, FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr, bits);
}

void Doorbell::RingAll() {
  attention_.store(0);
  bell_.fetch_add(1);
  syscall(SYS_futex, &bell_, FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr, 3);
}

void Doorbell::StateCpu() {
  const uint32_t now = static_cast<uint32_t>(sched_getcpu() + 1);
  if (cpu_.load() != now) cpu_.store(now);
}

void Doorbell::Sleep(uint32_t ticket, Attention who, absl::Duration limit) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  absl::Duration at = absl::DurationFromTimespec(until) + limit;
  until = absl::ToTimespec(at);
  // FUTEX_WAIT_BITSET takes an absolute time.
  syscall(SYS_futex, &bell_, FUTEX_WAIT_BITSET, ticket, &until, nullptr, static_cast<uint32_t>(who));
}

}  // namespace farandole
