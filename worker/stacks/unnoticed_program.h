#ifndef FARANDOLE_WORKER_STACKS_UNNOTICED_PROGRAM_H_
#define FARANDOLE_WORKER_STACKS_UNNOTICED_PROGRAM_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace farandole {

// Runs a program, and gives at most `most_bytes` of what it writes to its standard output. The rest of this process
// does not notice it: no SIGCHLD comes, and wait() for any child does not find it. It has none of this process's
// descriptors, and /dev/null for input and errors. The calling thread has all signals blocked (QuietThread), and sleeps
// in the kernel meanwhile, where it cannot be stopped by a debugger.
//   UNAVAILABLE         it cannot be started, or ended with another code than 0
//   DEADLINE_EXCEEDED   it did not end within `limit`, and was killed
//   RESOURCE_EXHAUSTED  it has written more
absl::StatusOr<std::string> RunUnnoticed(const std::vector<std::string>& words, char** environment, size_t most_bytes,
                                         absl::Duration limit);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_STACKS_UNNOTICED_PROGRAM_H_
