#ifndef FARANDOLE_WORKER_KERNELS_INTEGER_FINISH_H_
#define FARANDOLE_WORKER_KERNELS_INTEGER_FINISH_H_

// Scaling and averaging of integers, in place. For the reduce_<level>.cc files
// only: see vector_types.h on linkage.

#include <cstdint>
#include <limits>

namespace farandole {
namespace {

// Truncates towards zero; a value that does not fit becomes the nearest one that does, and NaN becomes 0.
template <typename Integer>
Integer Saturated(double value) {
  constexpr Integer kLeast = std::numeric_limits<Integer>::min();
  constexpr Integer kGreatest = std::numeric_limits<Integer>::max();
  // Half of it is exact in double for every width; twice that is one more than
  // kGreatest.
  constexpr double kTooGreat = 2.0 * static_cast<double>(kGreatest / 2 + 1);
  if (value != value) return 0;
  if (value >= kTooGreat) return kGreatest;
  if (value <= static_cast<double>(kLeast)) return kLeast;
  return static_cast<Integer>(value);
}

template <typename Integer>
void ScaleIntegers(Integer* values, int64_t count, double factor) {
  if (factor == 1.0) return;
  for (int64_t i = 0; i < count; ++i) {
    values[i] = Saturated<Integer>(static_cast<double>(values[i]) * factor);
  }
}

// Divides and truncates towards zero. divisor > 0.
template <typename Integer>
void DivideIntegers(Integer* values, int64_t count, int64_t divisor) {
  if constexpr (sizeof(Integer) == 8) {
    for (int64_t i = 0; i < count; ++i) values[i] /= divisor;
  } else {
    // A quotient of two numbers of at most 32 bits is far enough from the next
    // integer that rounding it to double cannot reach that; and there are
    // vector instructions for this division.
    const double divisor_as_double = static_cast<double>(divisor);
    for (int64_t i = 0; i < count; ++i) {
      values[i] = static_cast<Integer>(static_cast<double>(values[i]) / divisor_as_double);
    }
  }
}

}  // namespace
}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_INTEGER_FINISH_H_
