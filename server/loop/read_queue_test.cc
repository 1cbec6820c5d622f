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

}  // namespace
}  // namespace farandole
