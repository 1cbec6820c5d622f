#ifndef FARANDOLE_WORKER_LOG_H_
#define FARANDOLE_WORKER_LOG_H_

#include "absl/strings/string_view.h"

namespace farandole {

// Writes "farandole: SENTENCE" as one line to standard error, in one write, so that lines of several threads and
// processes do not mix.
void Log(absl::string_view sentence);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_LOG_H_
