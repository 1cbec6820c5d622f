#include "worker/engine/submissions/book/disputes.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(DisputesTest, AnAnswerEndsTheDisputeOfItsSlotAndAttempt) {
  Disputes disputes;
  Submission first, second;
  disputes.Add(7, 1, &first);
  disputes.Add(7, 2, &second);
  EXPECT_EQ(disputes.Take(7, 3), nullptr);
  EXPECT_EQ(disputes.Take(8, 1), nullptr);
  EXPECT_EQ(disputes.Take(7, 2), &second);
  EXPECT_EQ(disputes.Take(7, 2), nullptr);
  ASSERT_EQ(disputes.all().size(), 1u);
  EXPECT_EQ(disputes.all()[0].submission, &first);
}

TEST(DisputesTest, AGroupsDisputesEndTogetherInTheirOrder) {
  Disputes disputes;
  Submission first, other, second;
  first.group = second.group = 3;
  disputes.Add(7, 1, &first);
  disputes.Add(8, 1, &other);
  disputes.Add(9, 1, &second);
  EXPECT_EQ(disputes.TakeGroup(3), (std::vector<Submission*>{&first, &second}));
  EXPECT_TRUE(disputes.TakeGroup(3).empty());
  EXPECT_EQ(disputes.Take(8, 1), &other);
}

}  // namespace
}  // namespace farandole
