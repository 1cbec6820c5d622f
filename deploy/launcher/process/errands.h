#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROCESS_ERRANDS_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROCESS_ERRANDS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"
#include "deploy/launcher/process/event_loop.h"

namespace farandole::launcher {

// Calls that may have to wait, made one after the other on a thread of their own, so that the loop never does. Owned by
// the loop's thread.
class Errands {
 public:
  // What follows an errand, on the loop's thread.
  using Sequel = std::function<void()>;
  // Runs on the thread of the errands.
  using Errand = std::function<Sequel()>;

  // `loop` is borrowed.
  //   RESOURCE_EXHAUSTED  no descriptor can be made
  static absl::StatusOr<std::unique_ptr<Errands>> Make(EventLoop* loop);
  // Waits for the errand that runs; those behind it are dropped, as are sequels.
  ~Errands();
  Errands(const Errands&) = delete;
  Errands& operator=(const Errands&) = delete;

  void Add(Errand errand);
  // No errand waits or runs, and no sequel is due.
  bool is_idle() const { return open_ == 0; }

 private:
  Errands(EventLoop* loop, int fd);

  void Run();
  void OnDone();

  EventLoop* const loop_;
  // An eventfd: there are sequels.
  const int fd_;
  // Of the loop's thread: errands whose sequels have not run.
  int open_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<Errand> errands_;
  std::deque<Sequel> sequels_;
  bool is_ending_ = false;

  std::thread thread_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROCESS_ERRANDS_H_
