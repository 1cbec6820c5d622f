#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROCESS_BACKGROUND_CALLS_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROCESS_BACKGROUND_CALLS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"
#include "base/event_loop.h"

namespace farandole::launcher {

// Calls that may have to wait, made one after the other on a thread of their own, so that the loop never does. Owned by
// the loop's thread.
class BackgroundCalls {
 public:
  // Follows a call, on the loop's thread.
  using Continuation = std::function<void()>;
  // Runs on the calls' thread.
  using Call = std::function<Continuation()>;

  // `loop` is borrowed.
  //   RESOURCE_EXHAUSTED  no descriptor can be made
  static absl::StatusOr<std::unique_ptr<BackgroundCalls>> Make(EventLoop* loop);
  // Waits for the call that runs; those behind it are dropped, as are continuations.
  ~BackgroundCalls();
  BackgroundCalls(const BackgroundCalls&) = delete;
  BackgroundCalls& operator=(const BackgroundCalls&) = delete;

  void Add(Call call);
  // No call waits or runs, and no continuation is due.
  bool is_idle() const { return open_ == 0; }

 private:
  BackgroundCalls(EventLoop* loop, int fd);

  void Run();
  void OnDone();

  EventLoop* const loop_;
  // An eventfd: there are continuations.
  const int fd_;
  // Of the loop's thread: calls whose continuations have not run.
  int open_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<Call> calls_;
  std::deque<Continuation> continuations_;
  bool is_ending_ = false;

  std::thread thread_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROCESS_BACKGROUND_CALLS_H_
