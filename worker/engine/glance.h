#ifndef FARANDOLE_WORKER_ENGINE_GLANCE_H_
#define FARANDOLE_WORKER_ENGINE_GLANCE_H_

#include <atomic>
#include <cstdint>

#include "worker/engine/submissions/book/submission.h"

namespace farandole {

// When a thread that submits a small collective, and does not need to wait, waits all the same for a short while. If
// the other ranks come meanwhile, the result is there without waking another thread, which takes longer than the
// collective. If they do not, 1, 3, 7 and at most 63 submissions go on at once before the next attempt. Thread-safe;
// where two threads use it at once, one attempt more or less is made.
class Glance {
 public:
  // How long it lasts.
  static constexpr int64_t kNs = 50'000;

  // Before a submission, if nothing else is pending: whether to make an attempt.
  bool IsWanted(const Request& request);
  // After an attempt.
  void Note(bool was_complete);

 private:
  std::atomic<int> skips_{0};
  std::atomic<int> left_{0};
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_GLANCE_H_
