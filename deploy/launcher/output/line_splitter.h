#ifndef FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_LINE_SPLITTER_H_
#define FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_LINE_SPLITTER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "deploy/launcher/output/terminal_text.h"

namespace farandole::launcher {

// Cuts one stream of a worker's output into whole lines, and knows how a terminal would show those that may still
// change. Owned by the launch, used on its thread only.
//
// A carriage return starts the line anew, so of a progress bar only the last state is left, and "\r\n" is a line's end.
// Programs with several bars move the cursor up (tqdm, rich): the lines that they can reach are held, and so they are
// drawn in place. The sequences that move the cursor or erase are obeyed and not passed on; those that change the whole
// terminal (its title, its cursor, its screen) are left out. Colours are passed on; they end with each line, and begin
// anew on the next. All other bytes are passed as they are. A line of more than kMaxLineBytes is cut into pieces of
// that size.
class LineSplitter {
 public:
  static constexpr size_t kMaxLineBytes = 64 * 1024;
  static constexpr size_t kMaxRows = 100;
  // Gets a line without its end; the view is valid during the call.
  using Emit = std::function<void(absl::string_view line)>;

  // A line that may still change.
  struct Row {
    std::string text;
    // It was started anew: a progress bar.
    bool is_progress = false;
    // A line end came after it.
    bool has_end = false;
  };

  // Takes the next bytes of the stream and calls `emit` for each line that they complete.
  void Push(absl::string_view bytes, const Emit& emit);
  // To be called in intervals of kSettleInterval or more while !is_settled(): emits lines that are complete, and held
  // for a cursor that might come back.
  void Settle(const Emit& emit);
  bool is_settled() const { return cursor_ == 0; }
  // The stream has ended: emits the rest, if any.
  void Finish(const Emit& emit);
  // The terminal itself has ended the line with the cursor, and all of it was shown.
  void DropLine();

  // Never empty; the last one may be without text.
  const std::deque<Row>& rows() const { return rows_; }
  // The one with the cursor.
  const Row& current() const { return rows_[cursor_]; }

 private:
  // After a sequence that hides the cursor: so many calls of Settle without any movement show that nothing moves.
  static constexpr int kMostUnmoved = 5;

  void Text(absl::string_view text, const Emit& emit);
  void NewLine(const Emit& emit);
  void Obey(absl::string_view sequence, const Emit& emit);
  void ObeyControl(absl::string_view sequence, const Emit& emit);
  void SetCursorHidden(bool is_hidden);
  void MoveUp(size_t count);
  void EraseLine();
  void AddInvisible(absl::string_view bytes);
  void EmitFirst(const Emit& emit);

  // From the first that may still change.
  std::deque<Row> rows_ = std::deque<Row>(1);
  size_t cursor_ = 0;
  // The next text starts the row anew.
  bool starts_anew_ = false;
  // Sequences without width that came when the row was about to be started anew.
  std::string invisible_;
  // The beginning of a sequence whose end has not come.
  std::string unread_;
  TextStyle style_;
  // How far above the last row the cursor has been.
  size_t reach_ = 0;
  bool is_cursor_hidden_ = false;
  bool has_moved_up_ = false;
  int unmoved_ = 0;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_LINE_SPLITTER_H_
