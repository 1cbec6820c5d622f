#ifndef FARANDOLE_BASE_BACKOFF_H_
#define FARANDOLE_BASE_BACKOFF_H_

#include <random>

#include "absl/time/time.h"

namespace farandole {

// The first delay before a call to the coordinator or a connection to a peer is tried again: longer than a restart's
// first refusals, and too short for a person to notice. The longest delay is the caller's choice, by what waits for it.
inline constexpr absl::Duration kFirstRetryDelay = absl::Milliseconds(50);

// Delays between attempts: doubling from `initial` to `longest`, each drawn evenly from its upper half, so that workers
// which lost a coordinator or a peer together do not come back together. Every call that is tried again over a network
// uses it. Not thread-safe.
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
  // Not absl::BitGen, whose seeds come from a pool that TSan does not see guarded.
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_BACKOFF_H_
