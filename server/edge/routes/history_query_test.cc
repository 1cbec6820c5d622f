#include "server/edge/routes/history_query.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/diagnosis/roll_up_history.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

TEST(HistoryQueryTest, ARankAHostOrTheWholeJobIsAskedFor) {
  EXPECT_FALSE(HistoryIn("view=page&range=1h").value().has_value());
  const HistoryAsked rank = HistoryIn("rank=37&epoch=4").value().value();
  EXPECT_EQ(rank.rank, 37u);
  EXPECT_EQ(rank.epoch, 4u);
  EXPECT_FALSE(rank.latest.has_value());
  EXPECT_EQ(HistoryIn("rank=all").value()->rank, RollUpHistory::kWholeJob);
  EXPECT_EQ(HistoryIn("host=a%20b").value()->host_id, "a b");
}

TEST(HistoryQueryTest, EachRangeHasItsTime) {
  const std::pair<const char*, absl::Duration> ranges[] = {
      {"10m", absl::Minutes(10)}, {"1h", absl::Hours(1)},        {"6h", absl::Hours(6)},
      {"3d", absl::Hours(72)},    {"30d", absl::Hours(24 * 30)}, {"all", absl::InfiniteDuration()}};
  for (const auto& [name, latest] : ranges)
    EXPECT_EQ(HistoryIn(absl::StrCat("rank=0&range=", name)).value()->latest, latest) << name;
}

TEST(HistoryQueryTest, WhatIsNoneIsNamedWithWhatMayBe) {
  const std::pair<const char*, const char*> wrong[] = {
      {"rank=0&range=2h", "range=2h is not 10m, 1h, 6h, 3d, 30d or all"},
      {"rank=0&range=1H", "range=1H is not"},
      {"rank=some", "rank=some is not a rank's number, or all"},
      {"rank=-1", "rank=-1 is not"},
      {"rank=4294967295", "rank=4294967295 is not"},
      {"rank=1&epoch=x", "epoch=x is not an epoch's number"},
      {"rank=1&host=a", "rank=1 and host=a ask for two histories"},
      {"host=a&epoch=3", "epoch=3 goes with rank= only"}};
  for (const auto& [query, sentence] : wrong) {
    const absl::Status status = HistoryIn(query).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << query;
    EXPECT_THAT(status.message(), HasSubstr(sentence));
  }
  EXPECT_THAT(HistoryIn("host=" + std::string(129, 'x')).status().message(), HasSubstr("129 bytes"));
}

}  // namespace
}  // namespace farandole
