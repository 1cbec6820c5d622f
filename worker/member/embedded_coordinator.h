#ifndef FARANDOLE_WORKER_MEMBER_EMBEDDED_COORDINATOR_H_
#define FARANDOLE_WORKER_MEMBER_EMBEDDED_COORDINATOR_H_

#include <memory>

#include "absl/status/status.h"
#include "worker/launch/options.h"
#include "worker/launch/pmix_exchange.h"
#include "worker/member/worker.h"

namespace farandole {

// Gives a job that plain mpirun or srun has started a coordinator, and `options`, whose `launch` is set, its address,
// certificate, token and job. Rank 0 starts it, `farandole job-coordinator`, once in a process; it ends with rank 0's
// process, after it has told the others. Where it is stands in a file in a directory that is this user's alone. On one
// host all ranks read it there. Over several, rank 0 pins it to `pmix`, which is opened unless it is open already, and
// which is to stay open until the process exits. If a launch over several hosts has no PMIx, but one name on all of
// them, the file is in the user's state directory, which all are to share.
//   INVALID_ARGUMENT     the launch is on several hosts, whose processes cannot tell each other of a coordinator
//   FAILED_PRECONDITION  the program is not found or does not start, or the directory is not private; the text says why
//   DEADLINE_EXCEEDED    rank 0 has not started one until the join timeout
//   UNAVAILABLE          it proves itself at none of its addresses; each is named
//   ABORTED              `interrupted`
absl::Status FindEmbeddedCoordinator(WorkerOptions* options, std::unique_ptr<PmixExchange>* pmix,
                                     const Interrupted& interrupted);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_EMBEDDED_COORDINATOR_H_
