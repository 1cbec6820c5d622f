#include "deploy/launcher/output/console.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/launcher/output/terminal_text.h"

namespace farandole::launcher {
namespace {

// The launcher among the writers of lines.
constexpr int kLauncher = -1;

std::string Prefix(int worker, size_t width) {
  const std::string digits = absl::StrCat(worker);
  return absl::StrCat("[", std::string(width - std::min(width, digits.size()), ' '), digits, "] ");
}

bool AreOneFile(int fd, int other_fd) {
  struct stat status {};
  struct stat other {};
  return fstat(fd, &status) == 0 && fstat(other_fd, &other) == 0 && status.st_dev == other.st_dev &&
         status.st_ino == other.st_ino;
}

}  // namespace

Console::Console(const Plan& plan, EventLoop* loop, std::function<void()> on_drained)
    : index_width_(std::to_string(plan.workers - 1).size()),
      program_(plan.program),
      progress_(plan.progress),
      is_shared_(AreOneFile(plan.stdout_fd, plan.stderr_fd)),
      stdout_(plan.stdout_fd, loop, on_drained, plan.is_dumb),
      stderr_(plan.stderr_fd, loop, std::move(on_drained), plan.is_dumb) {}

WorkerTerminals Console::Terminals() const {
  WorkerTerminals terminals;
  const size_t taken = Prefix(0, index_width_).size();
  for (const auto& [stream, terminal] : {std::pair(kStdout, &terminals.out), std::pair(kStderr, &terminals.err)}) {
    if (!is_terminal(stream)) continue;
    *terminal = sink(stream).size();
    // A column is left free behind each line, so that no terminal wraps it.
    terminal->columns = static_cast<uint16_t>(std::max<size_t>(2, terminal->columns - taken) - 1);
  }
  return terminals;
}

std::string Console::LinePrefix(int worker) const {
  // As Horovod and Open MPI write it.
  const std::string time =
      prefixes_time_ ? absl::FormatTime("%a %b %e %H:%M:%S %Y", absl::Now(), absl::LocalTimeZone()) : "";
  return absl::StrCat(time, Prefix(worker, index_width_));
}

void Console::Line(Stream stream, int worker, absl::string_view text) {
  Print(stream, worker, LinePrefix(worker), text);
}

void Console::Say(absl::string_view sentence) { Print(kStderr, kLauncher, absl::StrCat(program_, ": "), sentence); }

void Console::Report(absl::string_view line) { Print(kStderr, kLauncher, "", line); }

bool Console::Shows(int worker, bool is_progress) const {
  if (progress_ == Progress::kAll) return true;
  return worker == first_ && !(is_progress && progress_ == Progress::kNone);
}

void Console::Unfinished(Stream stream, int worker, const std::deque<LineSplitter::Row>& rows) {
  if (!is_terminal(stream) || !Shows(worker, false)) return;
  const std::pair<int, int> key(worker, stream);
  const bool is_empty = rows.size() == 1 && rows[0].text.empty();
  if (is_empty && unfinished_.count(key) == 0) return;
  is_stale_ = true;
  if (is_empty) {
    unfinished_.erase(key);
  } else {
    unfinished_[key] = rows;
  }
}

void Console::Partial(Stream stream, int worker, const LineSplitter::Row& row) {
  if (is_terminal(stream) || (row.is_progress && !Shows(worker, true))) return;
  sink(stream).Write(open_line(stream).Continue({worker, stream}, LinePrefix(worker), row.text));
}

bool Console::IsFull() const {
  return stdout_.held_bytes() > OutputSink::kFullBytes || stderr_.held_bytes() > OutputSink::kFullBytes;
}

bool Console::HoldsNothing() const { return stdout_.held_bytes() == 0 && stderr_.held_bytes() == 0; }

void Console::Discard() {
  stdout_.Discard();
  stderr_.Discard();
}

void Console::Print(Stream stream, int writer, absl::string_view prefix, absl::string_view text) {
  OutputSink& to = sink(stream);
  if (stream == kStderr) ++lines_on_stderr_;
  if (to.is_terminal()) {
    is_stale_ = is_stale_ || drawn_ > 0;
    to.Write(absl::StrCat(&to == &screen() ? Erase() : "", prefix, text, "\n"));
  } else {
    to.Write(open_line(stream).Complete({writer, stream}, prefix, text));
  }
  MentionLostOutput();
}

std::vector<std::string> Console::RowsToDraw(size_t columns) const {
  std::vector<std::string> bars;
  std::vector<std::string> others;
  for (const auto& [key, rows] : unfinished_) {
    const std::string prefix = Prefix(key.first, index_width_);
    const size_t room = columns > prefix.size() + 1 ? columns - prefix.size() - 1 : 1;
    for (const LineSplitter::Row& row : rows) {
      if (row.text.empty() || !Shows(key.first, row.is_progress)) continue;
      const bool has_style = absl::string_view(row.text).find(kEscape) != absl::string_view::npos;
      // Typed text appears behind a prompt, so prompts come last.
      (row.is_progress ? bars : others)
          .push_back(absl::StrCat(prefix, FitColumns(row.text, room), has_style ? kPlainStyle : ""));
    }
  }
  bars.insert(bars.end(), others.begin(), others.end());
  return bars;
}

void Console::Refresh() {
  // A terminal that is behind gets the latest state when it has come so far.
  if (!is_stale_ || screen().held_bytes() > 0) return;
  is_stale_ = false;
  const TerminalSize size = screen().size();
  std::vector<std::string> rows = RowsToDraw(size.columns);
  // One is left free: lines that scroll away cannot be erased.
  const size_t most = std::max(1, size.rows - 1);
  if (rows.size() > most) rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(most));
  const std::string erased = Erase();
  drawn_ = rows.size();
  screen().Write(absl::StrCat(erased, absl::StrJoin(rows, "\n")));
}

std::string Console::Erase() {
  if (drawn_ == 0) return "";
  const std::string up = drawn_ > 1 ? absl::StrCat("\x1b[", drawn_ - 1, "A") : "";
  drawn_ = 0;
  // Back to the first column, up to the first row, and clear all from there on.
  return absl::StrCat("\r", up, "\x1b[J");
}

void Console::Leave() {
  is_stale_ = is_stale_ || drawn_ > 0;
  screen().Write(Erase());
}

void Console::OnEnter() {
  is_stale_ = is_stale_ || drawn_ > 0;
  drawn_ = 0;
}

void Console::MentionLostOutput() {
  if (stdout_.error() == 0 || lost_stdout_mentioned_) return;
  lost_stdout_mentioned_ = true;
  Say(absl::StrCat("cannot write to stdout (", strerror(stdout_.error()),
                   "): what the workers print there is dropped from now on, and the run goes on"));
}

}  // namespace farandole::launcher
