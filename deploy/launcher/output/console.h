#ifndef FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_CONSOLE_H_
#define FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_CONSOLE_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/event_loop.h"
#include "deploy/launcher/output/line_splitter.h"
#include "deploy/launcher/output/open_line.h"
#include "deploy/launcher/output/output_sink.h"
#include "deploy/launcher/process/worker_terminals.h"

namespace farandole::launcher {

// The workers whose progress bars are shown while they change; the last state of a bar is always shown when its line
// ends.
enum class Progress { kAll, kFirst, kNone };

// Shows a launch to people: the workers' lines, each whole and behind its worker's launch index ("[ 3] text"), and
// the launcher's own sentences. Owned by the launch; one thread.
//
// On a terminal the lines that may still change are drawn as the last ones (progress bars, a prompt), and other lines
// appear above them: those of the first worker, or of all by Progress::kAll. In a pipe or file, incomplete lines stay
// without their end until another writer has output.
class Console {
 public:
  enum Stream { kStdout = 0, kStderr = 1 };

  struct Plan {
    int stdout_fd = 1;
    int stderr_fd = 2;
    // Indices below are padded to equal width.
    int workers = 1;
    Progress progress = Progress::kFirst;
    // Treat the terminal as a file: it does not know the sequences by which lines are drawn.
    bool is_dumb = false;
    // The launcher's own sentences begin with its name.
    std::string program = "farandole";
  };

  // The descriptors and `loop` are borrowed. `on_drained` is called when output that had to wait for its reader was
  // written.
  Console(const Plan& plan, EventLoop* loop, std::function<void()> on_drained);

  // The first of the workers that run; 0 if it is not said.
  void SetFirst(int worker) { first_ = worker; }
  // From now on lines of workers begin with the time.
  void PrefixTime() { prefixes_time_ = true; }
  // The terminals that workers may have for their output: like this one, without the columns of their indices.
  WorkerTerminals Terminals() const;

  void Line(Stream stream, int worker, absl::string_view text);
  // The lines of this stream that may still change; the last may be empty. Drawn by the next Refresh, if they are drawn
  // at all.
  void Unfinished(Stream stream, int worker, const std::deque<LineSplitter::Row>& rows);
  // Shows an incomplete line that its worker has not continued for a while. Does nothing on a terminal.
  void Partial(Stream stream, int worker, const LineSplitter::Row& row);
  // The launcher's own sentence, on stderr.
  void Say(absl::string_view sentence);
  // A line of a report of the launcher's, on stderr, exactly as given.
  void Report(absl::string_view line);
  // Lines on stderr so far.
  size_t lines_on_stderr() const { return lines_on_stderr_; }

  // Draws the changed lines.
  void Refresh();
  // Another program writes to the terminal next, from its first column on. Refresh draws anew.
  void Leave();
  // The terminal has shown the end of a line that was typed. The lines drawn so far stay where they are.
  void OnEnter();

  bool is_terminal(Stream stream) const { return sink(stream).is_terminal(); }
  // The readers are behind: workers' output must wait.
  bool IsFull() const;
  bool HoldsNothing() const;
  void Discard();

 private:
  OutputSink& sink(Stream stream) { return stream == kStdout || is_shared_ ? stdout_ : stderr_; }
  const OutputSink& sink(Stream stream) const { return stream == kStdout || is_shared_ ? stdout_ : stderr_; }
  OpenLine& open_line(Stream stream) { return open_lines_[stream == kStdout || is_shared_ ? 0 : 1]; }
  // The terminal on which is drawn; of two, that of stderr.
  OutputSink& screen() { return sink(is_terminal(kStderr) ? kStderr : kStdout); }
  bool Shows(int worker, bool is_progress) const;
  std::string LinePrefix(int worker) const;
  void Print(Stream stream, int writer, absl::string_view prefix, absl::string_view text);
  std::vector<std::string> RowsToDraw(size_t columns) const;
  // Removes the drawn lines, by bytes that it returns.
  std::string Erase();
  void MentionLostOutput();

  const size_t index_width_;
  const std::string program_;
  const Progress progress_;
  int first_ = 0;
  bool prefixes_time_ = false;
  // Both streams are one file, pipe or terminal.
  const bool is_shared_;
  OutputSink stdout_;
  OutputSink stderr_;
  bool lost_stdout_mentioned_ = false;
  size_t lines_on_stderr_ = 0;
  OpenLine open_lines_[2];
  // By worker and stream.
  std::map<std::pair<int, int>, std::deque<LineSplitter::Row>> unfinished_;
  bool is_stale_ = false;
  // Rows that are drawn.
  size_t drawn_ = 0;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_CONSOLE_H_
