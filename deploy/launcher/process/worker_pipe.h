#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROCESS_WORKER_PIPE_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROCESS_WORKER_PIPE_H_

#include <functional>

#include "absl/strings/string_view.h"
#include "base/event_loop.h"
#include "deploy/launcher/process/worker_process.h"

namespace farandole::launcher {

// The reading end, of a pipe or a terminal, of one output stream of one worker. Owned by its host; one thread. Owns
// its descriptor.
class WorkerPipe {
 public:
  // Takes `fd`, non-blocking; -1: a stream that has ended. `loop` is borrowed. `on_bytes` gets the bytes read; empty:
  // the end.
  WorkerPipe(int fd, EventLoop* loop, std::function<void(absl::string_view bytes)> on_bytes);
  ~WorkerPipe();
  WorkerPipe(const WorkerPipe&) = delete;
  WorkerPipe& operator=(const WorkerPipe&) = delete;

  // Lets the loop read, or not.
  void Resume();
  void Pause();
  // Reads once. False: nothing is there, or the stream has ended.
  bool ReadSome();
  // Of a worker that writes to a terminal.
  void Resize(TerminalSize size) { SetTerminalSize(fd_, size); }

 private:
  void Close();

  int fd_;
  EventLoop* const loop_;
  const std::function<void(absl::string_view)> on_bytes_;
  bool is_watched_ = false;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROCESS_WORKER_PIPE_H_
