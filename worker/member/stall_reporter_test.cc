#include "worker/member/stall_reporter.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int64_t kS = 1'000'000'000;

TEST(StallReporterTest, ReportsOnceInEachWarningPeriod) {
  StallReporter stalls(10 * kS, 0);
  EXPECT_FALSE(stalls.IsReportDue(10 * kS, 100 * kS));
  EXPECT_TRUE(stalls.IsReportDue(11 * kS, 101 * kS));
  EXPECT_FALSE(stalls.IsReportDue(20 * kS, 111 * kS));
  EXPECT_TRUE(stalls.IsReportDue(22 * kS, 112 * kS));
  EXPECT_FALSE(stalls.IsReportDue(0, 130 * kS));
}

TEST(StallReporterTest, ATensorBeyondTheLimitEndsTheEpochWithItsCause) {
  StallReporter stalls(10 * kS, 60 * kS);
  EXPECT_TRUE(stalls.CheckLimit(60 * kS, "rank 1").ok());
  EXPECT_EQ(stalls.CheckLimit(61 * kS, "rank 1"),
            absl::DeadlineExceededError("a tensor of rank 1 is stalled for 61 s, and 60 s is the most "
                                        "(FARANDOLE_STALL_LIMIT_MS)"));
  stalls.SetCause("rank 0 has not submitted a");
  EXPECT_EQ(stalls.CheckLimit(61 * kS, "rank 1"),
            absl::DeadlineExceededError("a tensor of rank 1 is stalled for 61 s, and 60 s is the most "
                                        "(FARANDOLE_STALL_LIMIT_MS): rank 0 has not submitted a"));
}

TEST(StallReporterTest, WithoutALimitATensorMayBePendingForAnyTime) {
  EXPECT_TRUE(StallReporter(10 * kS, 0).CheckLimit(1'000'000 * kS, "rank 1").ok());
}

}  // namespace
}  // namespace farandole
