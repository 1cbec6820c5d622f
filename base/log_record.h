#ifndef FARANDOLE_BASE_LOG_RECORD_H_
#define FARANDOLE_BASE_LOG_RECORD_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace farandole {

// How workers and coordinator write their logs: equal fields and words, so that one reader understands both.

enum class LogLevel { kTrace, kDebug, kInfo, kWarning, kError, kOff };
enum class LogFormat { kText, kJson };

// The words that the settings accept.
inline constexpr char kLogLevels[] = "trace|debug|info|warning|error|off";
inline constexpr char kLogFormats[] = "text|json";

const char* LogLevelName(LogLevel level);
// Nothing for a word that is none of kLogLevels, kLogFormats.
std::optional<LogLevel> ParseLogLevel(absl::string_view word);
std::optional<LogFormat> ParseLogFormat(absl::string_view word);

// One line of a log.
struct LogRecord {
  absl::Time time;
  LogLevel level = LogLevel::kInfo;
  // "" if it is not known, or the line is about no job.
  std::string tenant;
  std::string job;
  // -1: of no rank.
  int rank = -1;
  std::string sentence;
};

// Without the line's end, and on one line whatever the sentence holds:
//   text  2026-11-21T16:36:50.123Z warning job default/mnist rank 0: SENTENCE
//   json
//   {"time":"2026-11-21T16:36:50.123Z","level":"warning","tenant":"default","job":"mnist","rank":0,"sentence":"..."}
// Fields that are not known are left out. Bytes that are no UTF-8 are replaced in JSON.
std::string ShowLogRecord(const LogRecord& record, LogFormat format);

}  // namespace farandole

#endif  // FARANDOLE_BASE_LOG_RECORD_H_
