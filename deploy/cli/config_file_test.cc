#include "deploy/cli/config_file.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ConfigFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<ConfigEntry>> Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadConfigFile(path_);
  }
  std::string Wrong(const std::string& text) {
    const absl::Status status = Read(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  }

  const std::string path_ = ::testing::TempDir() + "/config.yaml";
};

TEST_F(ConfigFileTest, KeysValuesAndLinesAreRead) {
  const auto entries = Read("# a remark\nlisten: 127.0.0.1:7070\n\nmax-workers: 16 # more\nhttp: \"[::1]:80\"\n");
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_THAT(*entries, ElementsAre(AllOf(Field(&ConfigEntry::key, "listen"),
                                          Field(&ConfigEntry::value, "127.0.0.1:7070"), Field(&ConfigEntry::line, 2)),
                                    AllOf(Field(&ConfigEntry::key, "max-workers"), Field(&ConfigEntry::value, "16"),
                                          Field(&ConfigEntry::line, 4)),
                                    AllOf(Field(&ConfigEntry::key, "http"), Field(&ConfigEntry::value, "[::1]:80"),
                                          Field(&ConfigEntry::line, 5))));
}

TEST_F(ConfigFileTest, AnEmptyFileSetsNothing) {
  for (const char* text : {"", "# only a remark\n", "---\n"}) {
    const auto entries = Read(text);
    ASSERT_TRUE(entries.ok()) << entries.status();
    EXPECT_THAT(*entries, IsEmpty());
  }
}

TEST_F(ConfigFileTest, WhatIsNoMappingOfSingleValuesIsNamedWithItsLine) {
  EXPECT_EQ(Wrong("listen: a\nhttp: [a, b]\n"), path_ + ":2: http: a single value is wanted, and there is a list");
  EXPECT_EQ(Wrong("listen:\n"), path_ + ":1: listen: a single value is wanted, and there is nothing");
  EXPECT_EQ(Wrong("listen: a\nhttp: b\nlisten: c\n"), path_ + ":3: listen: is set in line 1 already");
  EXPECT_THAT(Wrong("just words\n"), HasSubstr(path_ + ":1: the file is not a mapping"));
  EXPECT_THAT(Wrong("listen: a\n  http: b\n"), HasSubstr(path_ + ":2: this is not valid YAML: "));
  EXPECT_THAT(Wrong("listen: [a\n"), HasSubstr("this is not valid YAML: "));
  EXPECT_THAT(Wrong("? [a, b]\n: c\n"), HasSubstr("a key is one word"));
}

TEST_F(ConfigFileTest, AMissingFileIsNamed) {
  const absl::Status status = ReadConfigFile("/no/such/file").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/no/such/file"));
}

TEST_F(ConfigFileTest, WhatIsShownReadsBackTheSame) {
  const std::vector<ConfigEntry> shown = {
      {"listen", "[::1]:7070", 1}, {"http", "", 2}, {"state-dir", "/a b: c #d", 3}, {"max-workers", "16", 4}};
  const std::string text = ShowConfigFile(shown, {"default", "default", "file", "flag"});
  EXPECT_THAT(text, HasSubstr("# flag\n"));
  const auto entries = Read(text);
  ASSERT_TRUE(entries.ok()) << entries.status() << text;
  ASSERT_EQ(entries->size(), shown.size());
  for (size_t i = 0; i < shown.size(); ++i) {
    EXPECT_EQ((*entries)[i].key, shown[i].key);
    EXPECT_EQ((*entries)[i].value, shown[i].value) << text;
  }
}

}  // namespace
}  // namespace farandole
