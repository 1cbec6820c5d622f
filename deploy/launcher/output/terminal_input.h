#ifndef FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_TERMINAL_INPUT_H_
#define FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_TERMINAL_INPUT_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/event_loop.h"

namespace farandole::launcher {

// Stdin of worker 0. A pipe or file is handed over as it is. A terminal cannot be: the worker, in a process group of
// its own, would be stopped for reading it. So a pipe carries the typed bytes, while the launcher is in the terminal's
// foreground. Owned by the launch; one thread.
class TerminalInput {
 public:
  // `loop` is borrowed. `on_enter` is called when a line's end that was typed is carried over, and the terminal has
  // shown it.
  TerminalInput(EventLoop* loop, std::function<void()> on_enter) : loop_(loop), on_enter_(std::move(on_enter)) {}
  ~TerminalInput();
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;

  // The descriptor that worker 0 gets as its stdin; CloseWorkerEnd() when it is started.
  //   RESOURCE_EXHAUSTED  no pipe can be made
  absl::StatusOr<int> Open();
  void CloseWorkerEnd();
  // Reads the terminal (again), for instance after the launcher has come to the foreground.
  void Resume();
  // The reader is gone.
  void Close();

 private:
  void OnTyped();
  void Forward();

  EventLoop* const loop_;
  const std::function<void()> on_enter_;
  int pipe_[2] = {-1, -1};
  // Typed, and not yet taken by the worker.
  std::string typed_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_TERMINAL_INPUT_H_
