#include "deploy/launcher/output/line_splitter.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace farandole::launcher {
namespace {

// A sequence such as "\x1b[?25h".
bool IsControl(absl::string_view sequence) { return sequence.size() > 2 && sequence[1] == '['; }

// The number in "\x1b[NA"; `otherwise` if there is none.
size_t Parameter(absl::string_view sequence, size_t otherwise) {
  size_t value = 0;
  return absl::SimpleAtoi(sequence.substr(2, sequence.size() - 3), &value) ? value : otherwise;
}

}  // namespace

void LineSplitter::Push(absl::string_view bytes, const Emit& emit) {
  std::string both;
  if (!unread_.empty()) {
    both = absl::StrCat(unread_, bytes);
    unread_.clear();
    bytes = both;
  }
  while (!bytes.empty()) {
    const size_t plain = std::min(bytes.size(), bytes.find_first_of("\n\r\x1b"));
    if (plain > 0) Text(bytes.substr(0, plain), emit);
    bytes.remove_prefix(plain);
    if (bytes.empty()) return;
    size_t size = 1;
    if (bytes[0] == '\n') {
      NewLine(emit);
    } else if (bytes[0] == '\r') {
      starts_anew_ = true;
    } else if (size = SequenceSize(bytes); size > 1) {
      Obey(bytes.substr(0, size), emit);
    } else if (size == 1) {
      Text(bytes.substr(0, 1), emit);
    } else {
      unread_ = std::string(bytes);
      return;
    }
    bytes.remove_prefix(size);
  }
}

void LineSplitter::Settle(const Emit& emit) {
  if (is_cursor_hidden_ && has_moved_up_) return;
  if (is_cursor_hidden_ && ++unmoved_ < kMostUnmoved) return;
  is_cursor_hidden_ = false;
  while (cursor_ > 0) EmitFirst(emit);
}

void LineSplitter::Finish(const Emit& emit) {
  if (!unread_.empty()) Text(unread_, emit);
  unread_.clear();
  while (!rows_.empty()) EmitFirst(emit);
  rows_.assign(1, Row());
  cursor_ = 0;
}

void LineSplitter::DropLine() {
  if (cursor_ + 1 < rows_.size()) return;
  rows_[cursor_] = Row();
  starts_anew_ = false;
}

void LineSplitter::Text(absl::string_view text, const Emit& emit) {
  if (starts_anew_) {
    rows_[cursor_].text.clear();
    rows_[cursor_].is_progress = true;
    starts_anew_ = false;
  }
  std::string& row = rows_[cursor_].text;
  row += invisible_;
  invisible_.clear();
  row.append(text.data(), text.size());
  if (row.size() <= kMaxLineBytes) return;
  while (cursor_ > 0) EmitFirst(emit);
  std::string& first = rows_[0].text;
  size_t begin = 0;
  // Strictly more: a line of just the bound keeps its own end.
  for (; first.size() - begin > kMaxLineBytes; begin += kMaxLineBytes) {
    emit(absl::string_view(first).substr(begin, kMaxLineBytes));
  }
  first.erase(0, begin);
}

void LineSplitter::NewLine(const Emit& emit) {
  Row& row = rows_[cursor_];
  row.text += invisible_;
  if (!style_.is_plain()) row.text += kPlainStyle;
  invisible_ = style_.Sequence();
  row.has_end = true;
  // A bar may be ended by "\n" only to draw another one below it. A line that ends in "\r\n" is no such bar.
  size_t held = row.is_progress && !starts_anew_ ? std::max<size_t>(reach_, 1) : reach_;
  if (is_cursor_hidden_ && !has_moved_up_) held = kMaxRows;
  ++cursor_;
  starts_anew_ = cursor_ < rows_.size();
  if (!starts_anew_) rows_.emplace_back();
  while (cursor_ > std::min(held, kMaxRows)) EmitFirst(emit);
}

void LineSplitter::EmitFirst(const Emit& emit) {
  const Row row = std::move(rows_.front());
  rows_.pop_front();
  if (cursor_ > 0) --cursor_;
  // A bar that was wiped out is no line, nor is one that the cursor has left without having written anything there.
  const bool is_blank = row.is_progress ? row.text.find_first_not_of(' ') == std::string::npos : row.text.empty();
  if (!is_blank || (row.has_end && !row.is_progress)) emit(row.text);
}

void LineSplitter::AddInvisible(absl::string_view bytes) {
  std::string& to = starts_anew_ ? invisible_ : rows_[cursor_].text;
  if (!starts_anew_) {
    to += invisible_;
    invisible_.clear();
  }
  if (to.size() <= kMaxLineBytes) to.append(bytes.data(), bytes.size());
}

void LineSplitter::Obey(absl::string_view sequence, const Emit& emit) {
  if (IsControl(sequence)) return ObeyControl(sequence, emit);
  // Character sets, and links. Titles and the like are the terminal's, not the line's.
  const bool is_of_line = sequence[1] < '0' || absl::StartsWith(sequence, "\x1b]8;");
  if (is_of_line) AddInvisible(sequence);
}

void LineSplitter::ObeyControl(absl::string_view sequence, const Emit& emit) {
  const bool is_private = sequence[2] >= '<' && sequence[2] <= '?';
  switch (sequence.back()) {
    case 'm':
      if (!is_private) style_.Apply(sequence);
      AddInvisible(sequence);
      return;
    case 'h':
    case 'l':
      if (sequence == "\x1b[?25l" || sequence == "\x1b[?25h") SetCursorHidden(sequence.back() == 'l');
      return;
    case 'A':
    case 'F':
      MoveUp(std::max<size_t>(1, Parameter(sequence, 1)));
      return;
    case 'B':
    case 'E':
      cursor_ = std::min(rows_.size() - 1, cursor_ + std::max<size_t>(1, std::min(Parameter(sequence, 1), kMaxRows)));
      starts_anew_ = true;
      return;
    case 'C':
      Text(std::string(std::max<size_t>(1, std::min<size_t>(Parameter(sequence, 1), kMaxRows)), ' '), emit);
      return;
    case 'G':
      if (Parameter(sequence, 1) <= 1) starts_anew_ = true;
      return;
    case 'K':
      if (Parameter(sequence, 0) == 2 || (Parameter(sequence, 0) == 0 && starts_anew_)) EraseLine();
      return;
    case 'J':
      if (Parameter(sequence, 0) != 0) return;
      if (starts_anew_) EraseLine();
      rows_.resize(cursor_ + 1);
      return;
    default:
      // Others move the cursor over lines that are not this worker's.
      return;
  }
}

void LineSplitter::SetCursorHidden(bool is_hidden) {
  is_cursor_hidden_ = is_hidden;
  has_moved_up_ = false;
  unmoved_ = 0;
  reach_ = 0;
}

void LineSplitter::MoveUp(size_t count) {
  // Rows above were emitted already; write them anew.
  while (count > cursor_ && rows_.size() < kMaxRows) {
    rows_.emplace_front();
    ++cursor_;
  }
  cursor_ -= std::min(count, cursor_);
  starts_anew_ = true;
  has_moved_up_ = true;
  reach_ = std::max(reach_, rows_.size() - 1 - cursor_);
}

void LineSplitter::EraseLine() {
  rows_[cursor_].text.clear();
  starts_anew_ = true;
}

}  // namespace farandole::launcher
