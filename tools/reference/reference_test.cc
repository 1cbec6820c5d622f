#include "tools/reference/reference.h"

#include <fstream>
#include <iterator>

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr char kCommand[] = "bazel run //tools/reference:write_reference -- \"$PWD/docs\"";

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(ReferenceTest, ThePageOfMetricsIsUpToDate) { EXPECT_EQ(Read("docs/metrics.md"), MetricsPage()) << kCommand; }

TEST(ReferenceTest, ThePageOfSettingsIsUpToDate) { EXPECT_EQ(Read("docs/settings.md"), SettingsPage()) << kCommand; }

}  // namespace
}  // namespace farandole
