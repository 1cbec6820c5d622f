#ifndef FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_OUTPUT_DIRECTORY_H_
#define FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_OUTPUT_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"
#include "deploy/launcher/output/worker_output.h"

namespace farandole::launcher {

// Makes a directory and those above it, with this mode where they are missing.
//   FAILED_PRECONDITION  one cannot be made, or is no directory; the text names it
absl::Status MakeDirectories(const std::string& path, unsigned mode);

// Has a worker's output written to DIR/rank.N/stdout and .../stderr, too, for which it makes the directory. N has
// leading zeros, so that all names of a run of `workers` workers are of equal length, as Horovod has them.
//   FAILED_PRECONDITION  a directory or a file cannot be made, or belongs to another user; the text names it
absl::Status CopyToDirectory(const std::string& directory, int worker, int workers, WorkerOutput* out,
                             WorkerOutput* err);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_OUTPUT_DIRECTORY_H_
