#ifndef FARANDOLE_DEPLOY_STACKS_TRACER_H_
#define FARANDOLE_DEPLOY_STACKS_TRACER_H_

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "deploy/stacks/registers.h"

namespace farandole::stacks {

// A thread's registers and the innermost part of its stack, as they were at one moment.
struct ThreadSnapshot {
  pid_t tid = 0;
  std::string name;
  Registers registers;
  uint64_t stack_begin = 0;
  std::string stack;
  // From when it was last seen running until it went on; never too short.
  absl::Duration stopped;
  // "": it was taken.
  std::string why_not;
  // Where it may not be traced: errno; 0 otherwise.
  int refusal = 0;
};

// Takes snapshots of threads of other processes by ptrace: it stops a thread, copies its registers and at most 256 KiB
// of its stack, and lets it go on. If this process dies, the kernel lets all threads go on. One thread makes and uses
// it, since ptrace binds to a thread.
class Tracer {
 public:
  Tracer();
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // A thread that does not stop within 250 ms, as it gets no processor, is left out.
  ThreadSnapshot Take(pid_t pid, pid_t tid);
  // Lets threads go on that have stopped too late. To be called now and then.
  void ReleaseLate();

 private:
  // Waits until the thread stops, and gives the time at which it did not stand still yet. -1: it does not stop;
  // otherwise the signal that it is to get when it goes on.
  int AwaitStop(pid_t tid, absl::Time* running_at);

  sigset_t before_;
  bool goes_first_ = false;
  std::vector<pid_t> late_;
};

// The threads of a process, its main thread first, at most so many. Empty: there is no such process.
std::vector<pid_t> ThreadsOf(pid_t pid, size_t most);

}  // namespace farandole::stacks

#endif  // FARANDOLE_DEPLOY_STACKS_TRACER_H_
