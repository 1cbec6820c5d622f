#ifndef FARANDOLE_DEPLOY_LAUNCHER_LINE_SPLITTER_H_
#define FARANDOLE_DEPLOY_LAUNCHER_LINE_SPLITTER_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole::launcher {

// Cuts one stream of a worker's output into whole lines. Owned by the launch, used on its thread only.
//
// A line is what a terminal would show of it: a carriage return starts the line anew, so of a progress bar only the
// last state is left, and "\r\n" is a line's end. All other bytes are passed as they are. A line of more than
// kMaxLineBytes is cut into pieces of that size, so that no more than this is ever held.
class LineSplitter {
 public:
  static constexpr size_t kMaxLineBytes = 64 * 1024;
  // Gets a line without its end; the view is valid during the call.
  using Emit = std::function<void(absl::string_view line)>;

  // Takes the next bytes of the stream and calls `emit` for each line that they complete.
  void Push(absl::string_view bytes, const Emit& emit);

  // The stream has ended: emits what is left, if anything.
  void Finish(const Emit& emit);

  // What a terminal would show of the line that is not complete yet; valid until the next call.
  absl::string_view unfinished() const;

 private:
  void Append(absl::string_view bytes, const Emit& emit);

  // The line so far: text without carriage returns, then any number of them.
  std::string rest_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_LINE_SPLITTER_H_
