#include "base/log_record.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/text/plain_text.h"
#include "base/text/time_text.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

constexpr const char* kNames[] = {"trace", "debug", "info", "warning", "error", "off"};

std::string ShowText(const LogRecord& record) {
  std::string line = absl::StrCat(UtcTextMs(record.time), " ", LogLevelName(record.level));
  if (!record.job.empty()) {
    absl::StrAppend(&line, " job ", record.tenant, record.tenant.empty() ? "" : "/", record.job);
  }
  if (record.rank >= 0) absl::StrAppend(&line, " rank ", record.rank);
  absl::StrAppend(&line, ": ", record.sentence);
  for (char& c : line) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  return ValidText(line);
}

std::string ShowJsonLine(const LogRecord& record) {
  nlohmann::ordered_json json;
  json["time"] = UtcTextMs(record.time);
  json["level"] = LogLevelName(record.level);
  if (!record.tenant.empty()) json["tenant"] = record.tenant;
  if (!record.job.empty()) json["job"] = record.job;
  if (record.rank >= 0) json["rank"] = record.rank;
  json["sentence"] = record.sentence;
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

const char* LogLevelName(LogLevel level) { return kNames[static_cast<int>(level)]; }

std::optional<LogLevel> ParseLogLevel(absl::string_view word) {
  for (int level = 0; level <= static_cast<int>(LogLevel::kOff); ++level) {
    if (word == kNames[level]) return static_cast<LogLevel>(level);
  }
  return std::nullopt;
}

std::optional<LogFormat> ParseLogFormat(absl::string_view word) {
  if (word == "text") return LogFormat::kText;
  if (word == "json") return LogFormat::kJson;
  return std::nullopt;
}

std::string ShowLogRecord(const LogRecord& record, LogFormat format) {
  return format == LogFormat::kText ? ShowText(record) : ShowJsonLine(record);
}

}  // namespace farandole
