#include "worker/engine/submissions/book/orderer_news.h"

#include <variant>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(OrdererNewsTest, Rank0TakesTheChangesInTheirOrder) {
  OrdererNewsQueue queue(0);
  EXPECT_TRUE(queue.IsEmpty());
  queue.Add(GroupAdded{1, {0, 2}});
  queue.Add(SlotAdded{7, 1});
  EXPECT_FALSE(queue.IsEmpty());
  const std::vector<OrdererNews> news = queue.Take();
  ASSERT_EQ(news.size(), 2u);
  EXPECT_EQ(std::get<GroupAdded>(news[0]).group, 1u);
  EXPECT_EQ(std::get<SlotAdded>(news[1]).slot, 7u);
  EXPECT_TRUE(queue.IsEmpty());
  EXPECT_TRUE(queue.Take().empty());
}

TEST(OrdererNewsTest, OtherRanksKeepNone) {
  OrdererNewsQueue queue(1);
  queue.Add(GroupRemoved{1});
  EXPECT_TRUE(queue.IsEmpty());
  EXPECT_TRUE(queue.Take().empty());
}

}  // namespace
}  // namespace farandole
