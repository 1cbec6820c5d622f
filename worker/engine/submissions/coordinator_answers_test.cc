#include "worker/engine/submissions/coordinator_answers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/submissions/submission_fixture.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class CoordinatorAnswersTest : public SubmissionFixture {};

TEST_F(CoordinatorAnswersTest, ANewNameIsAskedForOnceAndPostedWhenItsSlotIsKnown) {
  const int64_t handle = *Submit("t");
  EXPECT_THAT(link_.Take(), ElementsAre("t"));
  EXPECT_THAT(Posted(), IsEmpty());
  table_.answers().OnSlotAssigned("t", 0, 5);
  EXPECT_THAT(Posted(), ElementsAre(5));
  EXPECT_EQ(StateOf(handle), "pending");
  RunSlot(5);
  EXPECT_EQ(StateOf(handle), "ok");
  ASSERT_TRUE(Submit("t").ok());
  EXPECT_THAT(Posted(), ElementsAre(5));
  EXPECT_THAT(link_.Take(), IsEmpty());
}

TEST_F(CoordinatorAnswersTest, NamesBeyondThoseThatAreAskedForAtATimeWaitForAnswers) {
  for (const char* name : {"w", "x", "a", "b", "c", "d", "e"}) ASSERT_TRUE(Submit(name).ok());
  EXPECT_THAT(link_.Take(), ElementsAre("w", "x", "a", "b"));
  EXPECT_EQ(table_.ReadActivity(MonotonicNs()).unasked(), 3u);
  table_.answers().OnSlotAssigned("b", 0, 1);
  EXPECT_THAT(link_.Take(), ElementsAre("c"));
  table_.answers().OnMismatch({"a", 0, "a: the ranks differ"});
  EXPECT_THAT(link_.Take(), ElementsAre("d"));
  // After a reattachment the table asks only for what it had asked for.
  table_.answers().AskAgain();
  EXPECT_THAT(link_.Take(), UnorderedElementsAre("w", "x", "c", "d"));
  // A joined rank is given the slot of a name for which it has not asked.
  table_.answers().OnSlotAssigned("e", 0, 2);
  EXPECT_THAT(Posted(), ElementsAre(1, 2));
  table_.answers().OnSlotAssigned("c", 0, 3);
  ASSERT_TRUE(Submit("f").ok());
  EXPECT_THAT(link_.Take(), ElementsAre("f"));
}

TEST_F(CoordinatorAnswersTest, UnnamedSubmissionsShareASlotForTheirOp) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Submit("").ok());
  EXPECT_THAT(link_.Take(), ElementsAre("unnamed.allreduce"));
  table_.answers().OnSlotAssigned("unnamed.allreduce", 0, 9);
  EXPECT_THAT(Posted(), ElementsAre(9, 9, 9));
}

TEST_F(CoordinatorAnswersTest, ARankOutsideAGroupIsTold) {
  table_.answers().OnGroupAdded(1, {0, 2});
  EXPECT_EQ(Submit("t", {1}, 1).status(),
            absl::InvalidArgumentError("t: rank 1 is not in process set 1 of ranks [0,2]"));
}

TEST_F(CoordinatorAnswersTest, AMismatchOfANewNameEndsOneAndAsksForTheNext) {
  const int64_t first = *Submit("");
  ASSERT_TRUE(Submit("").ok());
  EXPECT_THAT(link_.Take(), ElementsAre("unnamed.allreduce"));
  table_.answers().OnMismatch({"unnamed.allreduce", 0, "differs", 0, 0, 0});
  EXPECT_EQ(StateOf(first), "differs");
  EXPECT_THAT(link_.Take(), ElementsAre("unnamed.allreduce"));
  EXPECT_EQ(table_.pending(), 1);
}

TEST_F(CoordinatorAnswersTest, ADisagreementIsCountedAndKeptUntilTheNameHasASlot) {
  const int64_t first = *Submit("a");
  EXPECT_THAT(link_.Take(), ElementsAre("a"));
  table_.answers().OnMismatch({"a", 0, "differs", 0, 0, 1});
  EXPECT_EQ(StateOf(first), "differs");
  const int64_t second = *Submit("a");
  EXPECT_THAT(link_.Take(), ElementsAre("a ordinal 1"));
  table_.answers().AskAgain();
  EXPECT_THAT(link_.Take(), ElementsAre("a ordinal 1"));
  ASSERT_EQ(table_.answers().Told().size(), 1u);
  EXPECT_EQ(table_.answers().Told()[0].sentence, "differs");
  EXPECT_EQ(table_.answers().Told()[0].next_ordinal, 1u);
  table_.answers().OnSlotAssigned("a", 0, 5);
  EXPECT_THAT(table_.answers().Told(), IsEmpty());
  table_.log().OnDispute(5, 1, 3);
  table_.answers().OnMismatch({"a", 0, "differs in its slot", 5, 1, 0});
  EXPECT_EQ(StateOf(second), "differs in its slot");
  ASSERT_EQ(table_.answers().Told().size(), 1u);
  EXPECT_EQ(table_.answers().Told()[0].attempt, 1u);
  table_.log().OnRetired(5);
  EXPECT_THAT(table_.answers().Told(), IsEmpty());
}

TEST_F(CoordinatorAnswersTest, ARemovedGroupEndsWhatIsPendingInIt) {
  table_.answers().OnGroupAdded(1, {0, 1});
  const int64_t handle = *Submit("a", {1}, 1);
  EXPECT_FALSE(table_.IsIdle(1));
  table_.answers().OnGroupRemoved(1);
  EXPECT_EQ(StateOf(handle), "process set 1 was removed");
  EXPECT_EQ(table_.pending(), 0);
  EXPECT_EQ(Submit("a", {1}, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace farandole
