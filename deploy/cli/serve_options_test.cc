#include "deploy/cli/serve_options.h"

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ServeOptionsTest : public ::testing::Test {
 protected:
  ServeOptionsTest() { AddServeOptions(&command_, &options_); }

  void Write(const std::string& text) { std::ofstream(path_) << text; }
  absl::Status Parse(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--config", path_});
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    command_.parse(reversed);
    return ApplyConfigFile(command_, &options_);
  }
  std::string Wrong(const std::string& text) {
    Write(text);
    const absl::Status status = Parse({});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  }

  const std::string path_ = ::testing::TempDir() + "/serve.yaml";
  CLI::App command_;
  ServeOptions options_;
};

TEST_F(ServeOptionsTest, TheFileSetsWhatNoFlagHasSet) {
  Write("listen: 127.0.0.1:1\nmax-workers: 16\nhttp: 127.0.0.1:2\n");
  ASSERT_TRUE(Parse({"--listen", "127.0.0.1:9"}).ok());
  EXPECT_EQ(options_.listen, "127.0.0.1:9");
  EXPECT_EQ(options_.max_workers, 16u);
  EXPECT_EQ(options_.http, "127.0.0.1:2");
  EXPECT_EQ(options_.max_slots, 32768u);
}

TEST_F(ServeOptionsTest, AnErrorNamesFileLineAndKey) {
  EXPECT_EQ(Wrong("# remark\nlisten: a\nmax-worker: 3\n"),
            path_ + ":3: max-worker: no setting has this name; did you mean max-workers?");
  EXPECT_THAT(Wrong("qqqqqqqq: 3\n"), HasSubstr("no setting has this name; there are listen, state-dir, "));
  for (const char* value : {"many", "0", "65537", "-1", "1.5", "''"}) {
    EXPECT_THAT(Wrong(std::string("max-workers: ") + value + "\n"), HasSubstr(path_ + ":1: max-workers: '"));
  }
}

TEST_F(ServeOptionsTest, AWrongValueIsToldAlsoWhereAFlagHidesIt) {
  Write("max-workers: many\n");
  EXPECT_EQ(Parse({"--max-workers", "5"}).message(),
            path_ + ":1: max-workers: 'many' is no whole number from 1 to 65536 (workers)");
}

TEST_F(ServeOptionsTest, WhatIsPrintedNamesOriginsAndReadsBackTheSame) {
  Write("max-workers: 16\n");
  ASSERT_TRUE(Parse({"--listen", "[::1]:9"}).ok());
  const std::string printed = ShowServeOptions(command_, options_);
  EXPECT_THAT(printed, HasSubstr("  # --listen\n"));
  EXPECT_THAT(printed, HasSubstr("max-workers: 16  # " + path_ + "\n"));
  EXPECT_THAT(printed, HasSubstr("max-slots: 32768  # default\n"));
  Write(printed);
  CLI::App command;
  ServeOptions again;
  AddServeOptions(&command, &again);
  again.config = path_;
  ASSERT_TRUE(ApplyConfigFile(command, &again).ok());
  EXPECT_EQ(again.listen, "[::1]:9");
  EXPECT_EQ(again.max_workers, 16u);
  EXPECT_EQ(again.state_dir, "");
}

TEST_F(ServeOptionsTest, TheLimitForSilenceHasRoomForSomeSignsOfLife) {
  options_.state_dir = ::testing::TempDir();
  options_.heartbeat_interval_ms = 500;
  options_.silence_limit_ms = 1999;
  EXPECT_THAT(ToCoordinatorOptions(options_).status().message(),
              HasSubstr("--silence-limit-ms 1999 is less than four times --heartbeat-interval-ms 500"));
  // Workers say something each half second, however long that is.
  options_.heartbeat_interval_ms = 3000;
  options_.silence_limit_ms = 2000;
  EXPECT_THAT(ToCoordinatorOptions(options_).status().message(), Not(HasSubstr("--silence-limit-ms")));
}

TEST_F(ServeOptionsTest, EverySettingHasOneFlagOneVariableAndAMeaning) {
  std::set<std::string> seen;
  for (const ServeSetting& setting : ServeSettings()) {
    EXPECT_TRUE(seen.insert(setting.flag).second) << setting.flag;
    EXPECT_TRUE(seen.insert(setting.variable).second) << setting.variable;
    EXPECT_EQ((setting.text != nullptr) + (setting.number != nullptr), 1) << setting.flag;
    EXPECT_NE(std::string(setting.meaning), "") << setting.flag;
  }
}

}  // namespace
}  // namespace farandole
