#ifndef FARANDOLE_DEPLOY_LAUNCHER_CONSOLE_H_
#define FARANDOLE_DEPLOY_LAUNCHER_CONSOLE_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "deploy/launcher/event_loop.h"
#include "deploy/launcher/output_sink.h"

namespace farandole::launcher {

// What people see of a launch: the workers' lines, each whole and behind its worker's launch index ("[ 3] text"), and
// the launcher's own sentences. Owned by the launch; one thread.
//
// On a terminal the unfinished line of worker 0 (a progress bar, a debugger's prompt) is shown as well, always as the
// last line; other lines appear above it.
class Console {
 public:
  enum Stream { kStdout = 0, kStderr = 1 };

  // The descriptors and `loop` are borrowed; indices below `workers` are padded to equal width. `on_drained` is called
  // when output that had to wait for its reader was written.
  Console(int stdout_fd, int stderr_fd, int workers, EventLoop* loop, std::function<void()> on_drained);

  // From now on lines of workers begin with the time.
  void PrefixTime() { prefixes_time_ = true; }
  void Line(Stream stream, int worker, absl::string_view text);
  // Worker 0's unfinished line is now `text`; empty: it has none. Nothing happens where `stream` is no terminal.
  void Unfinished(Stream stream, absl::string_view text);
  // The launcher's own sentence, on stderr.
  void Say(absl::string_view sentence);
  // A line of a report of the launcher's, on stderr, exactly as given.
  void Report(absl::string_view line);

  // The readers are behind: workers' output must wait.
  bool IsFull() const;
  bool HoldsNothing() const;
  void Discard();

 private:
  OutputSink& sink(Stream stream) { return stream == kStdout ? stdout_ : stderr_; }
  void Print(Stream stream, absl::string_view prefix, absl::string_view text);
  void Erase();
  void Draw();
  void MentionLostOutput();

  const size_t index_width_;
  bool prefixes_time_ = false;
  OutputSink stdout_;
  OutputSink stderr_;
  bool lost_stdout_mentioned_ = false;
  std::string unfinished_[2];
  // The stream whose unfinished line changed last is the one that is shown.
  Stream shown_stream_ = kStdout;
  bool is_drawn_ = false;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_CONSOLE_H_
