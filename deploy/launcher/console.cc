#include "deploy/launcher/console.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace farandole::launcher {
namespace {

// Back to the first column, and clear the line.
constexpr char kEraseLine[] = "\r\x1b[K";

std::string Prefix(int worker, size_t width) {
  const std::string digits = absl::StrCat(worker);
  return absl::StrCat("[", std::string(width - std::min(width, digits.size()), ' '), digits, "] ");
}

// At most `columns` characters of UTF-8, so that the terminal does not wrap the line, which could not be erased then.
absl::string_view Fit(absl::string_view text, size_t columns) {
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool starts_character = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (starts_character && ++characters > columns) return text.substr(0, i);
  }
  return text;
}

}  // namespace

Console::Console(int stdout_fd, int stderr_fd, int workers, EventLoop* loop, std::function<void()> on_drained)
    : index_width_(std::to_string(workers - 1).size()),
      stdout_(stdout_fd, loop, on_drained),
      stderr_(stderr_fd, loop, std::move(on_drained)) {}

void Console::Line(Stream stream, int worker, absl::string_view text) {
  // As Horovod and Open MPI write it.
  const std::string time =
      prefixes_time_ ? absl::FormatTime("%a %b %e %H:%M:%S %Y", absl::Now(), absl::LocalTimeZone()) : "";
  Print(stream, absl::StrCat(time, Prefix(worker, index_width_)), text);
}

void Console::Say(absl::string_view sentence) { Print(kStderr, "farandole: ", sentence); }

void Console::Report(absl::string_view line) { Print(kStderr, "", line); }

void Console::Unfinished(Stream stream, absl::string_view text) {
  if (!sink(stream).is_terminal() || unfinished_[stream] == text) return;
  Erase();
  unfinished_[stream] = std::string(text);
  shown_stream_ = text.empty() ? (stream == kStdout ? kStderr : kStdout) : stream;
  Draw();
}

bool Console::IsFull() const {
  return stdout_.held_bytes() > OutputSink::kFullBytes || stderr_.held_bytes() > OutputSink::kFullBytes;
}

bool Console::HoldsNothing() const { return stdout_.held_bytes() == 0 && stderr_.held_bytes() == 0; }

void Console::Discard() {
  stdout_.Discard();
  stderr_.Discard();
}

void Console::Print(Stream stream, absl::string_view prefix, absl::string_view text) {
  const bool shares_terminal = is_drawn_ && sink(stream).is_terminal();
  if (shares_terminal) Erase();
  sink(stream).Write(absl::StrCat(prefix, text, "\n"));
  if (shares_terminal) Draw();
  MentionLostOutput();
}

void Console::Erase() {
  if (is_drawn_) sink(shown_stream_).Write(kEraseLine);
  is_drawn_ = false;
}

void Console::Draw() {
  const std::string& text = unfinished_[shown_stream_];
  if (text.empty()) return;
  OutputSink& terminal = sink(shown_stream_);
  const std::string prefix = Prefix(0, index_width_);
  const size_t columns = terminal.width();
  const size_t room = columns > prefix.size() + 1 ? columns - prefix.size() - 1 : 1;
  terminal.Write(absl::StrCat(prefix, Fit(text, room)));
  is_drawn_ = true;
}

void Console::MentionLostOutput() {
  if (stdout_.error() == 0 || lost_stdout_mentioned_) return;
  lost_stdout_mentioned_ = true;
  Say(absl::StrCat("cannot write to stdout (", strerror(stdout_.error()),
                   "): what the workers print there is dropped from now on, and the run goes on"));
}

}  // namespace farandole::launcher
