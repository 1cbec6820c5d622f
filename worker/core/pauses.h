#ifndef FARANDOLE_WORKER_CORE_PAUSES_H_
#define FARANDOLE_WORKER_CORE_PAUSES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace farandole {

// When this process did not run: it was stopped (Ctrl-Z, a debugger), or its machine was. Its peers were stopped with
// it, or waited for it, so nobody is late by that time. Found by ticks that come late. One thread.
class Pauses {
 public:
  // As often as kUsualNs, or more often.
  void OnTick(int64_t now_ns) {
    if (ticked_ns_ != 0 && now_ns - ticked_ns_ >= kLateNs)
      pauses_[noted_++ % kMostPauses] = {ticked_ns_ + kUsualNs, now_ns};
    ticked_ns_ = now_ns;
  }
  // For how long the process ran of the last `age_ns`, as far as its last kMostPauses pauses tell.
  int64_t Ran(int64_t age_ns, int64_t now_ns) const {
    const int64_t since_ns = now_ns - age_ns;
    for (const Pause& pause : pauses_)
      age_ns -= std::max<int64_t>(0, pause.end_ns - std::max(pause.begin_ns, since_ns));
    return age_ns;
  }

  static constexpr int64_t kUsualNs = 500'000'000;
  // A busy machine has ticks wait for less.
  static constexpr int64_t kLateNs = 1'000'000'000;
  static constexpr size_t kMostPauses = 64;

 private:
  struct Pause {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
  };

  std::array<Pause, kMostPauses> pauses_ = {};
  size_t noted_ = 0;
  int64_t ticked_ns_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CORE_PAUSES_H_
