// A worker that joins its job, and says "formed" when its epoch has, but never comes to meet its peers.
#include <stdio.h>
#include <unistd.h>

#include "worker/launch/options.h"
#include "worker/member/coordinator_link.h"

int main() {
  const absl::StatusOr<farandole::WorkerOptions> options = farandole::ReadWorkerOptions(nullptr);
  if (!options.ok()) return 2;
  const auto link = farandole::CoordinatorLink::Join(*options, {}, {"unix-abstract:nobody-is-there"}, nullptr);
  if (!link.ok()) return 3;
  if (!(*link)->AwaitEpoch(nullptr).ok()) return 4;
  puts("formed");
  fflush(stdout);
  // Until it is killed.
  pause();
  return 0;
}
