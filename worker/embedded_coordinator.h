#ifndef FARANDOLE_WORKER_EMBEDDED_COORDINATOR_H_
#define FARANDOLE_WORKER_EMBEDDED_COORDINATOR_H_

#include "absl/status/status.h"
#include "worker/options.h"
#include "worker/worker.h"

namespace farandole {

// Gives a job that plain mpirun or srun has started on one host a coordinator, and `options`, whose `launch` is set,
// its address, token and job. Rank 0 starts it, `farandole job-coordinator`, once in a process; it ends with rank 0's
// process, after it has told the others. All ranks read where it is from a file in a directory that is this user's
// alone.
//   INVALID_ARGUMENT     the launch is on several hosts, whose processes cannot tell each other of a coordinator
//   FAILED_PRECONDITION  the program is not found or does not start, or the directory is not private; the text says why
//   DEADLINE_EXCEEDED    rank 0 has not started one until the join timeout
//   UNAUTHENTICATED      the token cannot be read
//   ABORTED              `interrupted`
absl::Status FindEmbeddedCoordinator(WorkerOptions* options, const Interrupted& interrupted);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_EMBEDDED_COORDINATOR_H_
