#include "base/log_record.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

LogRecord Stall() {
  LogRecord record;
  record.time = absl::FromUnixMillis(1'700'000'000'123);
  record.level = LogLevel::kWarning;
  record.tenant = "default";
  record.job = "mnist";
  record.rank = 0;
  record.sentence = "rank 1 is missing";
  return record;
}

TEST(LogRecordTest, ALineOfTextHasAllFields) {
  EXPECT_EQ(ShowLogRecord(Stall(), LogFormat::kText),
            "2023-11-14T22:13:20.123Z warning job default/mnist rank 0: rank 1 is missing");
}

TEST(LogRecordTest, ALineOfJsonHasAllFields) {
  EXPECT_EQ(ShowLogRecord(Stall(), LogFormat::kJson),
            "{\"time\":\"2023-11-14T22:13:20.123Z\",\"level\":\"warning\",\"tenant\":\"default\",\"job\":\"mnist\","
            "\"rank\":0,\"sentence\":\"rank 1 is missing\"}");
}

TEST(LogRecordTest, WhatIsNotKnownIsLeftOut) {
  LogRecord record = Stall();
  record.tenant = "";
  EXPECT_EQ(ShowLogRecord(record, LogFormat::kText),
            "2023-11-14T22:13:20.123Z warning job mnist rank 0: rank 1 is missing");
  record.job = "";
  record.rank = -1;
  EXPECT_EQ(ShowLogRecord(record, LogFormat::kText), "2023-11-14T22:13:20.123Z warning: rank 1 is missing");
  const auto json = nlohmann::json::parse(ShowLogRecord(record, LogFormat::kJson));
  EXPECT_EQ(json.size(), 3u) << json;
}

TEST(LogRecordTest, ASentenceStaysOnOneLineWhateverItHolds) {
  LogRecord record = Stall();
  record.sentence = "two\nlines, \x1b[31m and \xff\"";
  EXPECT_EQ(ShowLogRecord(record, LogFormat::kText).find_first_of("\n\x1b"), std::string::npos);
  const std::string line = ShowLogRecord(record, LogFormat::kJson);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(line)["sentence"], "two\nlines, \x1b[31m and \xef\xbf\xbd\"");
}

TEST(LogRecordTest, ALineOfTextHasNothingThatATerminalObeys) {
  LogRecord record = Stall();
  // The last is U+009B, which begins a command as ESC [ does, an override of the direction, and a byte that is no
  // UTF-8.
  record.sentence =
      "gr\xC3\xB6\xC3\x9F"
      "e\t\xE2\x82\xAC: a\xC2\x9B"
      "2J b\xE2\x80\xAE c\xFF";
  EXPECT_EQ(ShowLogRecord(record, LogFormat::kText),
            "2023-11-14T22:13:20.123Z warning job default/mnist rank 0: gr\xC3\xB6\xC3\x9F"
            "e \xE2\x82\xAC: a?2J b? c?");
}

TEST(LogRecordTest, EveryWordOfTheSettingsIsKnownAndNoOther) {
  for (const char* word : {"trace", "debug", "info", "warning", "error", "off"}) {
    ASSERT_TRUE(ParseLogLevel(word).has_value()) << word;
    EXPECT_STREQ(LogLevelName(*ParseLogLevel(word)), word);
  }
  EXPECT_EQ(ParseLogFormat("text"), LogFormat::kText);
  EXPECT_EQ(ParseLogFormat("json"), LogFormat::kJson);
  for (const char* word : {"", "warn", "INFO", "info "}) EXPECT_FALSE(ParseLogLevel(word).has_value()) << word;
  EXPECT_FALSE(ParseLogFormat("yaml").has_value());
}

}  // namespace
}  // namespace farandole
