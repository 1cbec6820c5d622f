#include "base/steady_time.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace farandole {
namespace {

struct Origin {
  absl::Time wall = absl::Now();
  std::chrono::steady_clock::time_point steady = std::chrono::steady_clock::now();
};

const Origin& TheOrigin() {
  static const Origin origin;
  return origin;
}

}  // namespace

absl::Time SteadyNow() {
  const Origin& origin = TheOrigin();
  return origin.wall + absl::FromChrono(std::chrono::steady_clock::now() - origin.steady);
}

absl::Duration WallAhead() { return absl::Now() - SteadyNow(); }

std::chrono::steady_clock::time_point ToSteadyClock(absl::Time time) {
  const Origin& origin = TheOrigin();
  // A century is as good as forever, and the sum does not overflow.
  const absl::Duration since = std::clamp(time - origin.wall, absl::ZeroDuration(), absl::Hours(24 * 36500));
  return origin.steady +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(absl::ToChronoNanoseconds(since));
}

}  // namespace farandole
