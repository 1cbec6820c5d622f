#include "deploy/cli/log_formatter.h"

#include <string>

#include "absl/strings/string_view.h"

namespace farandole {
namespace {

LogLevel LevelOf(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
      return LogLevel::kTrace;
    case spdlog::level::debug:
      return LogLevel::kDebug;
    case spdlog::level::info:
      return LogLevel::kInfo;
    case spdlog::level::warn:
      return LogLevel::kWarning;
    default:
      return LogLevel::kError;
  }
}

}  // namespace

void LogFormatter::format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) {
  LogRecord record;
  record.time = absl::FromChrono(message.time);
  record.level = LevelOf(message.level);
  const absl::string_view name(message.logger_name.data(), message.logger_name.size());
  if (const size_t slash = name.find('/'); slash != absl::string_view::npos) {
    record.tenant = std::string(name.substr(0, slash));
    record.job = std::string(name.substr(slash + 1));
  }
  record.sentence.assign(message.payload.data(), message.payload.size());
  const std::string text = ShowLogRecord(record, format_) + "\n";
  line.append(text.data(), text.data() + text.size());
}

}  // namespace farandole
