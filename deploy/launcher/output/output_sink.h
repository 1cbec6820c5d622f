#ifndef FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_OUTPUT_SINK_H_
#define FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_OUTPUT_SINK_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/event_loop.h"
#include "deploy/launcher/process/worker_terminals.h"

namespace farandole::launcher {

// Writes to a descriptor that others may share (stdout, stderr), without ever blocking on a reader that is slow or
// stopped, and without making the shared file description non-blocking. Owned by the console; one thread.
//
// Holds bytes that the reader does not take yet. The caller stops feeding while held_bytes() is above kFullBytes.
class OutputSink {
 public:
  static constexpr size_t kFullBytes = 1024 * 1024;

  // `fd` and `loop` are borrowed. `on_drained` is called when everything held was written, after it had to wait.
  // `is_dumb`: not taken for a terminal, even if it is one.
  OutputSink(int fd, EventLoop* loop, std::function<void()> on_drained, bool is_dumb = false);
  ~OutputSink();
  OutputSink(const OutputSink&) = delete;
  OutputSink& operator=(const OutputSink&) = delete;

  void Write(absl::string_view bytes);
  size_t held_bytes() const { return held_.size() - written_; }
  bool is_terminal() const { return is_terminal_; }
  // Of the terminal; 80 columns and 24 rows where it does not say.
  TerminalSize size() const;
  // Not 0: errno of the write that failed. From then on everything is dropped.
  int error() const { return error_; }
  // Drops the held output: it will not be read.
  void Discard();

 private:
  void Flush();
  bool WriteSome();

  const int fd_;
  EventLoop* const loop_;
  const std::function<void()> on_drained_;
  const bool is_terminal_;
  const bool never_blocks_;
  std::string held_;
  size_t written_ = 0;
  bool waiting_ = false;
  int error_ = 0;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_OUTPUT_SINK_H_
