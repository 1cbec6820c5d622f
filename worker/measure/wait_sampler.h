#ifndef FARANDOLE_WORKER_MEASURE_WAIT_SAMPLER_H_
#define FARANDOLE_WORKER_MEASURE_WAIT_SAMPLER_H_

#include <cstdint>

namespace farandole {

// Which of many short waits are timed. A look at the clock takes a twentieth of the time of a small collective, so one
// of 16 waits is timed on average, and stands for those before it that were not. Distances are irregular, so that a
// program that repeats itself is not timed at the same call each time. Not thread-safe.
class WaitSampler {
 public:
  // How many waits the wait that ends now stands for; 0: it is not to be timed.
  int Next() {
    ++passed_;
    if (--left_ > 0) return 0;
    const int weight = passed_;
    passed_ = 0;
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    left_ = 1 + static_cast<int>(state_ % kLongestDistance);
    return weight;
  }

 private:
  static constexpr uint32_t kLongestDistance = 31;

  int passed_ = 0;
  int left_ = 1;
  uint32_t state_ = 2463534242;  // of Marsaglia's xorshift
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEASURE_WAIT_SAMPLER_H_
