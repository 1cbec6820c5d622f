#ifndef FARANDOLE_WORKER_CORE_CLOCK_H_
#define FARANDOLE_WORKER_CORE_CLOCK_H_

#include <cstdint>

namespace farandole {

// CLOCK_MONOTONIC in nanoseconds.
int64_t MonotonicNs();

// A source of that kind of time; a simulation has its own.
using ClockNs = int64_t (*)();

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CORE_CLOCK_H_
