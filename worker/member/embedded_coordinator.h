#ifndef FARANDOLE_WORKER_MEMBER_EMBEDDED_COORDINATOR_H_
#define FARANDOLE_WORKER_MEMBER_EMBEDDED_COORDINATOR_H_

#include <memory>

#include "absl/status/status.h"
#include "worker/launch/options.h"
#include "worker/launch/pmix_exchange.h"
#include "worker/member/worker.h"

namespace farandole {

// Provides a coordinator for a job that plain mpirun or srun has started, and sets its address, certificate, token and
// job in `options`, whose `launch` must be set. Rank 0 starts `farandole job-coordinator`, once in a process. The
// coordinator ends after rank 0's process, when it has told the other ranks. Rank 0 publishes its address:
//   one host       in a file in a directory that only this user can read
//   several hosts  through `pmix`, which this opens if needed, and which must stay open until the process exits
//   without PMIx   in a file in the user's state directory, which all hosts must share; only if the launch has the same
//                  name on all of them
//   INVALID_ARGUMENT     the launch is on several hosts, whose processes cannot tell each other of a coordinator
//   FAILED_PRECONDITION  the program is not found or does not start, or the directory is not private; the text says why
//   DEADLINE_EXCEEDED    rank 0 has not started one until the join timeout
//   UNAVAILABLE          it proves itself at none of its addresses; each is named
//   ABORTED              `interrupted`
absl::Status FindEmbeddedCoordinator(WorkerOptions* options, std::unique_ptr<PmixExchange>* pmix,
                                     const Interrupted& interrupted);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_EMBEDDED_COORDINATOR_H_
