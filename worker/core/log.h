#ifndef FARANDOLE_WORKER_CORE_LOG_H_
#define FARANDOLE_WORKER_CORE_LOG_H_

#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/log_record.h"

namespace farandole {

// Writes a worker's messages to people as lines on standard error: in text "farandole: " and the line of
// base/log_record.h, in JSON that line alone. Each is one write, so that lines of several threads and processes do not
// mix. Any thread.
//
// No logging library: a handful of lines in an hour does not need one, and this library is loaded into programs that
// may have another version of it.
class WorkerLog {
 public:
  WorkerLog() = default;
  WorkerLog(LogLevel least, LogFormat format, std::string job) : least_(least), format_(format), job_(std::move(job)) {}

  // `rank`: of this worker; -1 before it has one.
  void Write(LogLevel level, int rank, absl::string_view sentence) const;

 private:
  LogLevel least_ = LogLevel::kInfo;
  LogFormat format_ = LogFormat::kText;
  std::string job_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CORE_LOG_H_
