#include "server/queue/queue.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/queue/simulated_quotas.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Duration kJustBefore = kReserveAfter - absl::Milliseconds(1);

class QueueTest : public ::testing::Test {
 protected:
  std::vector<std::string> Order(const std::string& tenant) {
    std::vector<std::string> order;
    for (const Queue::Position& place : site_.queue().Positions(site_.PoolOf(tenant), site_.now()))
      order.push_back(place.key.Text());
    return order;
  }
  std::string Reason(const std::string& key) {
    for (const Queue::Position& place : site_.queue().Positions(site_.PoolOf(key.substr(0, 1)), site_.now())) {
      if (place.key.Text() == key) return place.reason;
    }
    return "";
  }

  SimulatedQuotas site_;
};

TEST_F(QueueTest, AnEarlierLaunchStartsFirst) {
  site_.SetTenant("a", 4);
  site_.Run("a/now", 4);
  site_.Launch("a/one", 4);
  site_.Pass(absl::Seconds(1));
  site_.Launch("a/two", 4);
  EXPECT_THAT(Order("a"), ElementsAre("a/one", "a/two"));
  EXPECT_THAT(site_.Start(), IsEmpty());
  site_.End("a/now");
  EXPECT_THAT(site_.Start(), ElementsAre("a/one"));
  site_.End("a/one");
  EXPECT_THAT(site_.Start(), ElementsAre("a/two"));
}

TEST_F(QueueTest, AHigherPriorityStartsFirstWithinATenant) {
  site_.SetTenant("a", 4);
  site_.Run("a/now", 4);
  site_.Launch("a/low", 4, -1);
  site_.Launch("a/plain", 4);
  site_.Launch("a/high", 4, 1);
  EXPECT_THAT(Order("a"), ElementsAre("a/high", "a/plain", "a/low"));
  site_.End("a/now");
  EXPECT_THAT(site_.Start(), ElementsAre("a/high"));
}

TEST_F(QueueTest, SmallerJobsPassTheFirstUntilItHasWaitedTenMinutes) {
  site_.SetTenant("a", 8);
  site_.Run("a/now", 2);
  site_.Launch("a/large", 8);
  site_.Pass(kJustBefore);
  site_.Launch("a/early", 2);
  EXPECT_THAT(site_.Start(), ElementsAre("a/early"));
  site_.Pass(absl::Milliseconds(1));
  site_.Launch("a/late", 2);
  EXPECT_THAT(site_.Start(), IsEmpty());
  EXPECT_THAT(Reason("a/late"), HasSubstr("job large, which wants 8 workers, has been the first for more than 10m, and "
                                          "none of tenant a starts before it"));
  site_.End("a/now");
  EXPECT_THAT(site_.Start(), IsEmpty());
  site_.End("a/early");
  EXPECT_THAT(site_.Start(), ElementsAre("a/large"));
}

TEST_F(QueueTest, NoPriorityPassesAJobWhoseRoomIsReserved) {
  site_.SetTenant("a", 8);
  site_.Run("a/now", 2);
  site_.Launch("a/large", 8);
  site_.Pass(kReserveAfter);
  site_.Launch("a/urgent", 1, 1000);
  EXPECT_THAT(Order("a"), ElementsAre("a/large", "a/urgent"));
  EXPECT_THAT(site_.Start(), IsEmpty());
  site_.End("a/now");
  EXPECT_THAT(site_.Start(), ElementsAre("a/large"));
}

TEST_F(QueueTest, AnUrgentLaunchTakesTheFirstPlaceBeforeThatAndTheWaitBeginsAnew) {
  site_.SetTenant("a", 8);
  site_.Run("a/now", 8);
  site_.Launch("a/large", 8);
  site_.Pass(kJustBefore);
  site_.Launch("a/urgent", 8, 1);
  site_.Pass(absl::Minutes(1));
  site_.queue().Remove({"a", "urgent"});
  site_.End("a/now");
  site_.Run("a/other", 2);
  site_.Launch("a/small", 2);
  EXPECT_THAT(site_.Start(), ElementsAre("a/small"));
}

TEST_F(QueueTest, JobsCountAsWellAsWorkers) {
  site_.SetTenant("a", 8, "", 0, 1, 1);
  site_.Run("a/now", 1);
  site_.Launch("a/next", 1);
  EXPECT_THAT(site_.Start(), IsEmpty());
  EXPECT_EQ(Reason("a/next"), "tenant a runs 1 jobs, its quota is 1");
}

TEST_F(QueueTest, ACohortLendsWhatItDoesNotUse) {
  site_.SetTenant("a", 4, "research", 4);
  site_.SetTenant("b", 8, "research");
  site_.SetTenant("c", 8);
  site_.Run("a/now", 4);
  site_.Launch("a/more", 4);
  EXPECT_THAT(site_.Start(), ElementsAre("a/more"));
  site_.Launch("a/most", 1);
  EXPECT_THAT(site_.Start(), IsEmpty());
  EXPECT_EQ(Reason("a/most"),
            "it wants 1 workers, tenant a has 8 in its other jobs, and its quota is 4, with up to 4 borrowed ones");
  // It has lent a part of its own.
  site_.Launch("b/own", 8);
  EXPECT_THAT(site_.Start(), IsEmpty());
  EXPECT_EQ(Reason("b/own"), "it wants 8 workers, and 8 of the 12 of cohort research are in use");
  site_.End("a/more");
  EXPECT_THAT(site_.Start(), ElementsAre("b/own"));
}

TEST_F(QueueTest, ATenantsOwnQuotaComesBeforeWhatOthersBorrow) {
  site_.SetTenant("a", 4, "research", 4);
  site_.SetTenant("b", 4, "research");
  site_.Run("a/now", 4);
  site_.Run("b/now", 4);
  site_.Launch("a/borrows", 4);
  site_.Pass(absl::Seconds(1));
  site_.Launch("b/own", 4);
  site_.End("b/now");
  EXPECT_THAT(Order("a"), ElementsAre("b/own", "a/borrows"));
  EXPECT_THAT(site_.Start(), ElementsAre("b/own"));
}

TEST_F(QueueTest, WhileAJobHasWaitedTenMinutesForWhatItsTenantHasLentNobodyBorrows) {
  site_.SetTenant("a", 4, "research", 8);
  site_.SetTenant("b", 8, "research");
  site_.SetTenant("c", 1, "research", 8);
  site_.Run("c/lent", 6);
  site_.Launch("b/large", 8);
  site_.Pass(kJustBefore);
  site_.Launch("c/early", 1);
  EXPECT_THAT(site_.Start(), ElementsAre("c/early"));
  site_.Pass(absl::Milliseconds(1));
  site_.Launch("c/late", 1);
  EXPECT_THAT(site_.Start(), IsEmpty());
  EXPECT_THAT(Reason("c/late"), HasSubstr("it would borrow from cohort research"));
  // A tenant's own quota stays its own.
  site_.Launch("a/own", 4);
  EXPECT_THAT(site_.Start(), ElementsAre("a/own"));
  site_.End("a/own");
  EXPECT_THAT(site_.Start(), IsEmpty());
  site_.End("c/lent");
  EXPECT_THAT(site_.Start(), ElementsAre("b/large", "c/late"));
}

TEST_F(QueueTest, OfThoseThatBorrowTheSmallestShareOverItsWeightComesFirst) {
  site_.SetTenant("a", 2, "research", 10, 1);
  site_.SetTenant("b", 2, "research", 10, 3);
  site_.SetTenant("c", 8, "research");
  site_.Run("a/one", 3);
  site_.Run("b/one", 6);
  site_.Launch("a/two", 1);
  site_.Pass(absl::Seconds(1));
  site_.Launch("b/two", 1);
  // 3 / 1 and 6 / 3 of the cohort's 12.
  EXPECT_THAT(Order("a"), ElementsAre("b/two", "a/two"));
  EXPECT_THAT(site_.Start(), ElementsAre("b/two", "a/two"));
}

TEST_F(QueueTest, ALaunchThatDoesNotWaitPassesNoneWhoseRoomIsReserved) {
  site_.SetTenant("a", 8);
  site_.Run("a/now", 2);
  const auto check = [&] {
    return site_.queue().CheckNew(site_.EntryOf({"a", "new"}, 2), site_.PoolOf("a"), site_.now());
  };
  site_.Launch("a/large", 8);
  EXPECT_TRUE(check().ok());
  site_.Pass(kReserveAfter);
  EXPECT_THAT(std::string(check().message()),
              HasSubstr("job new: job large, which wants 8 workers, has been the first"));
  site_.End("a/now");
  EXPECT_FALSE(check().ok());
  EXPECT_THAT(site_.Start(), ElementsAre("a/large"));
  site_.End("a/large");
  EXPECT_TRUE(check().ok());
}

TEST_F(QueueTest, AJobThatIsTooLargeForItsQuotaKeepsNobodyWaiting) {
  site_.SetTenant("a", 8);
  site_.Run("a/now", 8);
  site_.Launch("a/large", 8);
  site_.SetTenant("a", 4);
  site_.Launch("a/small", 4);
  site_.Pass(kReserveAfter);
  EXPECT_EQ(Queue::CheckEver(site_.EntryOf({"a", "x"}, 5), site_.PoolOf("a")).message(),
            "job x: it wants 5 workers, and tenant a may have 4 at most: its quota is 4");
  site_.End("a/now");
  EXPECT_THAT(site_.Start(), ElementsAre("a/small"));
  site_.End("a/small");
  // It has kept its place.
  site_.SetTenant("a", 8);
  EXPECT_THAT(site_.Start(), ElementsAre("a/large"));
}

TEST_F(QueueTest, ACancelledJobGoes) {
  site_.SetTenant("a", 1);
  site_.Run("a/now", 1);
  site_.Launch("a/one", 1);
  site_.Launch("a/two", 1);
  EXPECT_TRUE(site_.queue().Remove({"a", "one"}));
  EXPECT_FALSE(site_.queue().Remove({"a", "one"}));
  site_.End("a/now");
  EXPECT_THAT(site_.Start(), ElementsAre("a/two"));
  EXPECT_TRUE(site_.queue().empty());
}

}  // namespace
}  // namespace farandole
