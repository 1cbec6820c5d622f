#ifndef FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_OPEN_LINE_H_
#define FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_OPEN_LINE_H_

#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace farandole::launcher {

// The end of a file or pipe in which several writers' lines stand, where the last line may lack its end: the writer
// that has begun the line continues it, and another writer's line begins on a new one. Each function returns the bytes
// to write. Pure.
class OpenLine {
 public:
  // Of a worker, and one of its streams.
  using Writer = std::pair<int, int>;

  // The writer's unfinished line is now `text`. A text that does not begin with the part written before replaces it, by
  // a carriage return.
  std::string Continue(Writer writer, absl::string_view prefix, absl::string_view text);
  // The writer's line is complete.
  std::string Complete(Writer writer, absl::string_view prefix, absl::string_view text);
  // Ends the line, whosever it is.
  std::string End();

 private:
  bool is_open_ = false;
  Writer writer_;
  // The written part of its line.
  std::string text_;
  // The same of writers whose lines others have ended.
  std::map<Writer, std::string> interrupted_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_OPEN_LINE_H_
