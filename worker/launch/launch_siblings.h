#ifndef FARANDOLE_WORKER_LAUNCH_LAUNCH_SIBLINGS_H_
#define FARANDOLE_WORKER_LAUNCH_LAUNCH_SIBLINGS_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "worker/launch/foreign_launch.h"

namespace farandole {

// Watches the processes that mpirun or srun has started on this host beside this one, by /proc: these launchers take an
// end with code 0 for no failure and tell nobody of it. In doubt a process counts as running. Thread-compatible.
class LaunchSiblings {
 public:
  struct Ended {
    // The number of the process in the launch, and its launch index in this worker's job.
    int number = 0;
    int launch_index = 0;
    // "rank 1 of mpirun (pid 4711 on node-3) ended with exit code 0". The code is known where the process ran when it
    // was first looked for and the kernel tells it (Linux 6.15); the pid where it ran then.
    std::string sentence;
  };

  // `host` is this host's name, for people.
  LaunchSiblings(LaunchedProcesses launched, std::string host);
  ~LaunchSiblings();
  LaunchSiblings(const LaunchSiblings&) = delete;
  LaunchSiblings& operator=(const LaunchSiblings&) = delete;

  // Looks, where that is due: seldom at first, as most waits are short, then each second or two. Returns the members of
  // this worker's job on this host that have ended since the launch began, the caller excluded; none where no look was
  // due. `now` is of SteadyNow().
  //
  // A process that has never been seen has ended if the launcher, which is seen beside this process, has started its
  // last one on this host 5 s ago or longer and none of its children can be the missing one. Launchers start all
  // processes of a host at once.
  std::vector<Ended> FindEnded(absl::Time now);

 private:
  struct Look;
  // A process with a rank, held so that its end can be asked for.
  struct Seen {
    pid_t pid = 0;
    int pidfd = -1;
  };

  Look LookAround() const;
  void Hold(const Look& look);
  std::string Describe(int number) const;

  const LaunchedProcesses launched_;
  const std::string host_;
  absl::Time look_at_ = absl::InfinitePast();
  absl::Duration rest_;
  // By the processes' numbers.
  std::map<int, Seen> seen_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_LAUNCH_LAUNCH_SIBLINGS_H_
