#ifndef FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_DIRECTORY_H_
#define FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farandole::launcher {

// Makes a directory and those above it, with this mode where they are missing.
//   FAILED_PRECONDITION  one cannot be made, or is no directory; the text names it
absl::Status MakeDirectories(const std::string& path, unsigned mode);

// Makes the directory of a worker's output, DIR/rank.N, and returns its path. N has leading zeros, so that all of a
// run's names are of equal length, as Horovod has them.
//   FAILED_PRECONDITION  it cannot be made; the text names it
absl::StatusOr<std::string> MakeWorkerDirectory(const std::string& directory, int worker, int workers);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_DIRECTORY_H_
