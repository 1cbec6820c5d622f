#ifndef FARANDOLE_WORKER_ABI_TURN_H_
#define FARANDOLE_WORKER_ABI_TURN_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/status/status.h"

namespace farandole {

// A call that waits for others and meanwhile runs code of the program on its thread: handlers of signals, by
// `interrupted`. This code may call the library again, but it must not begin another such call, which might have to
// wait for the outer one. Lives on the stack of the call.
class BlockingCall {
 public:
  // `name` is static: "init()".
  explicit BlockingCall(const char* name);
  ~BlockingCall();
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;

  // FAILED_PRECONDITION: this thread is within another one, which the text names.
  absl::Status status() const;

 private:
  const char* const name_;
  const char* const outer_;
};

// Lets one of the calls that change the process's worker (init, rejoin, shutdown) run at a time: the one that has the
// turn.
// No lock is held meanwhile. Owned by the process. Thread-safe.
class Turn {
 public:
  // Waits for the other threads' turns. Not while it is this thread's turn.
  //   ABORTED: `interrupted`, which is asked every 100 ms
  absl::Status Take(const std::function<bool()>& interrupted);
  // The same for shutdown: as long as it waits, stopping is wanted.
  absl::Status TakeToStop(const std::function<bool()>& interrupted);
  // False where another thread has it.
  bool TryTake();
  void End();

  // Whether it is this thread's.
  bool IsMine() const;
  // By the thread whose turn it is: until its end, stopping is wanted.
  void WantStop();
  // The call that has the turn is to give up.
  bool IsStopWanted() const;

 private:
  absl::Status Await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& interrupted);

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  // No thread has the turn.
  std::thread::id owner_;
  bool owner_wants_stop_ = false;
  int waiting_to_stop_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ABI_TURN_H_
