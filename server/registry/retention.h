#ifndef FARANDOLE_SERVER_REGISTRY_RETENTION_H_
#define FARANDOLE_SERVER_REGISTRY_RETENTION_H_

#include <cstddef>

#include "absl/time/time.h"

namespace farandole {

// How long jobs that have ended are kept: both bounds hold. And for how long a repeated call is answered as the first
// one.
struct Retention {
  absl::Duration age = absl::Hours(30 * 24);
  // The newest so many of each tenant.
  size_t jobs = 10'000;
  // The most jobs that some workers of a launch formed by themselves. They are not counted among `jobs`.
  size_t parts = 256;
  absl::Duration answers = absl::Hours(24);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_REGISTRY_RETENTION_H_
