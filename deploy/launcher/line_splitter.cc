#include "deploy/launcher/line_splitter.h"

namespace farandole::launcher {
namespace {

// The part of `line` that a terminal still shows: what follows the last carriage return that has text behind it.
absl::string_view Visible(absl::string_view line) {
  const size_t last_text = line.find_last_not_of('\r');
  if (last_text == absl::string_view::npos) return absl::string_view();
  line = line.substr(0, last_text + 1);
  const size_t restart = line.rfind('\r');
  return restart == absl::string_view::npos ? line : line.substr(restart + 1);
}

}  // namespace

void LineSplitter::Push(absl::string_view bytes, const Emit& emit) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    Append(bytes.substr(0, end), emit);
    if (end == absl::string_view::npos) return;
    emit(Visible(rest_));
    rest_.clear();
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::Finish(const Emit& emit) {
  if (!rest_.empty()) emit(Visible(rest_));
  rest_.clear();
}

absl::string_view LineSplitter::unfinished() const { return Visible(rest_); }

void LineSplitter::Append(absl::string_view bytes, const Emit& emit) {
  // What is held has no carriage return but at its end; only what is new needs a look, or a long line would cost the
  // square of its length.
  const size_t held_text = rest_.find_last_not_of('\r');
  const size_t seen = held_text == std::string::npos ? 0 : held_text + 1;
  rest_.append(bytes.data(), bytes.size());
  const absl::string_view news = absl::string_view(rest_).substr(seen);
  const size_t last_text = news.find_last_not_of('\r');
  if (last_text != absl::string_view::npos) {
    const size_t restart = news.substr(0, last_text).rfind('\r');
    if (restart != absl::string_view::npos) rest_.erase(0, seen + restart + 1);
  }
  size_t begin = 0;
  // Strictly more: a line of just the bound keeps its own end.
  for (; rest_.size() - begin > kMaxLineBytes; begin += kMaxLineBytes) {
    emit(absl::string_view(rest_).substr(begin, kMaxLineBytes));
  }
  rest_.erase(0, begin);
}

}  // namespace farandole::launcher
