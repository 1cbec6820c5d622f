#include "deploy/cli/timeline_files.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

std::string Write(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(MergeTimelinesTest, FilesThatEndedAndFilesThatWereCutOffBecomeOne) {
  const std::string ended = Write("ended", "[\n{\"ph\":\"M\",\"pid\":0},\n{\"ph\":\"X\",\"pid\":0}\n]\n");
  const std::string cut = Write("cut", "[\n{\"ph\":\"X\",\"pid\":1},\n{\"ph\":\"X\",\"pi");
  const std::string none = Write("none", "[\n\n]\n");
  const std::string output = testing::TempDir() + "/all.json";
  ASSERT_TRUE(MergeTimelines({ended, cut, none}, output).ok());
  std::ifstream file(output);
  const auto all = nlohmann::json::parse(file);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2]["pid"], 1);
}

TEST(MergeTimelinesTest, WhatIsNoTimelineIsNamed) {
  const std::string output = testing::TempDir() + "/unused.json";
  const std::string broken = Write("broken", "[\n{\"ph\":\"X\"},\nhello\n{\"ph\":\"X\"}\n]\n");
  EXPECT_EQ(MergeTimelines({broken}, output), absl::InvalidArgumentError(broken + ":3: is no event of a timeline"));
  const std::string other = Write("other", "{\"a\":1}");
  EXPECT_EQ(MergeTimelines({other}, output), absl::InvalidArgumentError(other + ":1: is no event of a timeline"));
  EXPECT_EQ(MergeTimelines({"/no/such"}, output),
            absl::NotFoundError("cannot read /no/such: No such file or directory"));
  const std::string good = Write("good", "[\n{\"ph\":\"X\"}\n]\n");
  EXPECT_EQ(MergeTimelines({good}, "/no/such/folder/all").code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace farandole
