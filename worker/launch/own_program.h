#ifndef FARANDOLE_WORKER_LAUNCH_OWN_PROGRAM_H_
#define FARANDOLE_WORKER_LAUNCH_OWN_PROGRAM_H_

#include <string>

#include "worker/launch/options.h"

namespace farandole {

// The path of the program `farandole`: the one that the options name, or the one in this library's package or folder,
// or the first in PATH; "" if there is none.
std::string FindOwnProgram(const WorkerOptions& options);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_LAUNCH_OWN_PROGRAM_H_
