#ifndef FARANDOLE_BASE_STEADY_TIME_H_
#define FARANDOLE_BASE_STEADY_TIME_H_

#include <chrono>

#include "absl/time/time.h"

namespace farandole {

// The time by which the program decides: deadlines, silences, pauses. It begins at the wall clock's time, at the first
// call in the process, and then follows CLOCK_MONOTONIC, so that it does not step when the wall clock is set. People
// are shown absl::Now().
absl::Time SteadyNow();

// By how much the wall clock is ahead of SteadyNow, since it was set.
absl::Duration WallAhead();

// Converts a time of SteadyNow for the timed wait of a condition variable.
std::chrono::steady_clock::time_point ToSteadyClock(absl::Time time);

}  // namespace farandole

#endif  // FARANDOLE_BASE_STEADY_TIME_H_
