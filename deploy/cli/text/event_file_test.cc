#include "deploy/cli/text/event_file.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(EventFileTest, ChecksumsAreThoseOfTheStandard) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(""), 0u);
}

// That TensorBoard reads them, and what, is in tests/integration/test_metrics.py.
TEST(EventFileTest, AveragesAndRanksHaveRunsOfTheirOwn) {
  v1::ListLoggedResponse logged;
  for (int i = 0; i < 3; ++i) {
    v1::LoggedSeries* series = logged.add_series();
    series->set_name("loss");
    if (i > 0) series->set_rank(static_cast<uint32_t>(i));
    series->add_first_step(0);
    series->add_last_step(0);
    series->add_mean(1);
    series->add_at_unix_ms(1000);
  }
  const std::map<std::string, std::string> files = EventFiles(logged);
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files.count(""), 1u);
  EXPECT_EQ(files.count("rank2"), 1u);
  // Length, its checksum, wall time (9), the version (15), checksum.
  EXPECT_EQ(files.at("").substr(0, 8), std::string("\x18\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(files.at("").substr(12 + 9 + 2, 13), "brain.Event:2");
}

}  // namespace
}  // namespace farandole
