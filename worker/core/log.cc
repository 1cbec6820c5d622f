#include "worker/core/log.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace farandole {

void WorkerLog::Write(LogLevel level, int rank, absl::string_view sentence) const {
  if (level < least_) return;
  LogRecord record;
  record.time = absl::Now();
  record.level = level;
  record.job = job_;
  record.rank = rank;
  record.sentence = std::string(sentence);
  const char* speaker = format_ == LogFormat::kText ? "farandole: " : "";
  const std::string line = absl::StrCat(speaker, ShowLogRecord(record, format_), "\n");
  // A closed standard error is no reason to fail.
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

}  // namespace farandole
