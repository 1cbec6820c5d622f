#ifndef FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_WORKER_OUTPUT_H_
#define FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_WORKER_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "deploy/launcher/output/console.h"
#include "deploy/launcher/output/line_splitter.h"
#include "deploy/launcher/output/line_tail.h"

namespace farandole::launcher {

// Turns one output stream of one worker, on any host, into lines on the console, and writes every byte into a file
// where one is wanted. Owned by the launch; one thread.
class WorkerOutput {
 public:
  // `console` is borrowed.
  WorkerOutput(Console::Stream stream, int worker, Console* console);
  ~WorkerOutput();
  WorkerOutput(const WorkerOutput&) = delete;
  WorkerOutput& operator=(const WorkerOutput&) = delete;

  // From now on everything is written to this file too, which is made anew.
  //   FAILED_PRECONDITION  the file cannot be made; the text names it
  absl::Status CopyTo(const std::string& path);
  // `now` never goes back.
  void Push(absl::string_view bytes, absl::Duration now);
  // Call it every kLookInterval while it returns true, after all output of the worker was pushed: shows a line that has
  // not changed for a while, also without its end.
  static constexpr absl::Duration kLookInterval = absl::Milliseconds(100);
  bool Look(absl::Duration now);
  // The worker goes on elsewhere: lines that are complete are no longer held.
  void Settle();
  // The terminal has shown the end of a line that was typed behind a prompt.
  void OnEnter();
  // The stream has ended: emits the rest of the last line, and closes the file. May be called again.
  void Finish();

  const LineTail& tail() const { return tail_; }
  // Console::lines_on_stderr when this stream's last line was shown.
  size_t last_line_at() const { return last_line_at_; }

 private:
  bool IsToBeLookedAt() const;
  void EmitLine(absl::string_view line);
  void CopyToFile(absl::string_view bytes);

  const Console::Stream stream_;
  const int worker_;
  Console* const console_;
  int file_fd_ = -1;
  std::string file_path_;
  LineSplitter splitter_;
  LineTail tail_;
  uint64_t bytes_ = 0;
  size_t last_line_at_ = 0;
  // When to show the incomplete line.
  absl::Duration due_ = absl::InfiniteDuration();
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_WORKER_OUTPUT_H_
