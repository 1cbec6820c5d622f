#include "server/loop/read_queue.h"

#include <optional>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(ReadQueueTest, ATenantHasAFewReadingsAtATime) {
  ReadQueue queue;
  EXPECT_TRUE(queue.Begin({"vision", "a"}));
  EXPECT_TRUE(queue.Begin({"vision", "b"}));
  EXPECT_FALSE(queue.Begin({"vision", "c"}));
  EXPECT_FALSE(queue.Begin({"vision", "d"}));
  EXPECT_TRUE(queue.Begin({"speech", "x"})) << "another tenant's";
  EXPECT_EQ(queue.End("vision"), (JobKey{"vision", "c"}));
  EXPECT_FALSE(queue.Begin({"vision", "e"})) << "its place has gone to the one that waited";
  EXPECT_EQ(queue.End("vision"), (JobKey{"vision", "d"}));
  EXPECT_EQ(queue.End("vision"), (JobKey{"vision", "e"}));
  EXPECT_EQ(queue.End("vision"), std::nullopt);
  EXPECT_TRUE(queue.Begin({"vision", "f"}));
  EXPECT_EQ(queue.End("speech"), std::nullopt);
}

TEST(ReadQueueTest, AllTenantsTogetherHaveABoundAndTakeTurns) {
  ReadQueue queue;
  for (const char* tenant : {"a", "b"}) {
    for (const char* job : {"1", "2"}) EXPECT_TRUE(queue.Begin({tenant, job}));
    EXPECT_FALSE(queue.Begin({tenant, "3"}));
  }
  EXPECT_FALSE(queue.Begin({"quiet", "1"})) << "four are under way";
  EXPECT_EQ(queue.End("b"), (JobKey{"b", "3"}));
  EXPECT_EQ(queue.End("b"), (JobKey{"quiet", "1"}));
  EXPECT_EQ(queue.End("a"), (JobKey{"a", "3"}));
  for (const char* tenant : {"a", "a", "b", "quiet"}) EXPECT_EQ(queue.End(tenant), std::nullopt);
  for (const char* job : {"1", "2"}) EXPECT_TRUE(queue.Begin({"quiet", job}));
}

}  // namespace
}  // namespace farandole
