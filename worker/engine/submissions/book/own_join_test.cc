#include "worker/engine/submissions/book/own_join.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(OwnJoinTest, AJoinIsStatedOnceAndEndsWhenAllHaveJoined) {
  OwnJoin join;
  Submission submission;
  EXPECT_FALSE(join.IsDue());
  join.Begin(&submission);
  EXPECT_TRUE(join.IsDue());
  EXPECT_TRUE(join.has_joined());
  EXPECT_EQ(join.TakePost().kind, Post::Kind::kJoin);
  EXPECT_FALSE(join.IsDue());
  EXPECT_EQ(join.OnAllJoined(), &submission);
  join.OnFinished(&submission);
  EXPECT_EQ(join.submission(), nullptr);
  EXPECT_FALSE(join.has_joined());
  EXPECT_EQ(join.count(), 1u);
}

TEST(OwnJoinTest, SubmissionsThatComeBackMakeItDueAgainAndAreCounted) {
  OwnJoin join;
  Submission submission;
  join.Begin(&submission);
  EXPECT_EQ(join.TakePost().count, 0);
  join.CountReturned();
  join.CountReturned();
  EXPECT_TRUE(join.IsDue());
  EXPECT_EQ(join.TakePost().count, 2);
}

TEST(OwnJoinTest, ARankWhoseJoinHasEndedByALossStillCountsAsJoined) {
  OwnJoin join;
  Submission submission, other;
  join.Begin(&submission);
  join.OnFinished(&other);
  EXPECT_EQ(join.submission(), &submission);
  join.OnFinished(&submission);
  EXPECT_TRUE(join.has_joined());
  EXPECT_FALSE(join.IsDue());
  EXPECT_EQ(join.OnAllJoined(), nullptr);
}

}  // namespace
}  // namespace farandole
