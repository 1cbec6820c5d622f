#ifndef FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_LINE_TAIL_H_
#define FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_LINE_TAIL_H_

#include <cstddef>
#include <deque>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole::launcher {

// The last lines of a stream, for the report on a failed worker: at most kMaxLines, each of at most kMaxLineBytes (a
// longer one keeps its beginning). Owned by the launch, used on its thread only.
class LineTail {
 public:
  static constexpr size_t kMaxLines = 20;
  static constexpr size_t kMaxLineBytes = 4096;

  void Add(absl::string_view line) {
    if (lines_.size() == kMaxLines) lines_.pop_front();
    lines_.emplace_back(line.substr(0, kMaxLineBytes));
  }
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  std::deque<std::string> lines_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_LINE_TAIL_H_
