#ifndef FARANDOLE_DEPLOY_STACKS_NATIVE_STACKS_H_
#define FARANDOLE_DEPLOY_STACKS_NATIVE_STACKS_H_

#include <sys/types.h>

#include <string>

#include "absl/time/time.h"
#include "farandole/v1/flight.pb.h"

namespace farandole::stacks {

// Facts of /proc about a process that may not be traced.
struct TraceFacts {
  pid_t pid = 0;
  int error = 0;  // errno of ptrace
  // Of its status, as "t (tracing stop)"; "": there is no such process.
  std::string state;
  pid_t tracer = 0;  // 0: none
  std::string tracer_name;
  bool is_self = false;
  bool is_of_other_user = false;
  // It has changed its user, or asked to be hidden by prctl(PR_SET_DUMPABLE, 0).
  bool is_hidden = false;
  // kernel.yama.ptrace_scope; 0 where there is none.
  int yama_scope = 0;
};
TraceFacts ReadTraceFacts(pid_t pid, int error);
// One sentence: why, and what would allow it. Pure.
std::string WhyNotTraced(const TraceFacts& facts);

// Reads the native stacks of a process's threads but `skipped` (0: all), 64 at most, 100 frames each, the main thread
// first. Each thread is
// stopped while its registers and a part of its stack are copied; calls are found and named when it goes on. Names that
// are not found within `patience` are left out. Without threads, `about` says why. The environment must not have
// DEBUGINFOD_URLS (Unwinder). Any thread but one at a time; a thread of its own may go on to look for names after it
// has returned.
v1::NativeStacks ReadNativeStacks(pid_t pid, absl::Duration patience, pid_t skipped = 0);

// For people.
std::string ShowNativeStacks(pid_t pid, const v1::NativeStacks& stacks);

}  // namespace farandole::stacks

#endif  // FARANDOLE_DEPLOY_STACKS_NATIVE_STACKS_H_
