#ifndef FARANDOLE_DEPLOY_CLI_TIMELINE_FILES_H_
#define FARANDOLE_DEPLOY_CLI_TIMELINE_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace farandole {

// Writes the events of several timelines (worker/engine/submissions/book/timeline.h) as one, to `output`; "": to
// standard output. Files whose process was killed lack their end, and may lack the end of their last line, which is
// left out.
//   NOT_FOUND: a file cannot be read; INVALID_ARGUMENT: one is no timeline; names the line
//   UNAVAILABLE: the output cannot be written
absl::Status MergeTimelines(const std::vector<std::string>& paths, const std::string& output);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_TIMELINE_FILES_H_
