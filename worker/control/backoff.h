#ifndef FARANDOLE_WORKER_CONTROL_BACKOFF_H_
#define FARANDOLE_WORKER_CONTROL_BACKOFF_H_

#include "absl/random/random.h"
#include "absl/time/time.h"

namespace farandole {

// Delays between attempts: doubling from `initial` to `longest`, each drawn evenly from its upper half, so that workers
// which lost the coordinator together do not come back together. Not thread-safe.
class Backoff {
 public:
  Backoff(absl::Duration initial, absl::Duration longest);

  // The delay before the next attempt.
  absl::Duration Next();
  // After a success: the next delay is the first again.
  void Reset();

 private:
  const absl::Duration initial_;
  const absl::Duration longest_;
  absl::Duration current_;
  absl::BitGen random_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_BACKOFF_H_
