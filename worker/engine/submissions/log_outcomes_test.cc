#include "worker/engine/submissions/log_outcomes.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/submissions/submission_fixture.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LogOutcomesTest : public SubmissionFixture {
 protected:
  static constexpr int64_t kMs = 1'000'000;
};

// A submission that its waiter drives, and that meets those of the other ranks.
class MeetingTest : public SubmissionFixture {
 protected:
  MeetingTest() {
    request_.name = "t";
    request_.tensors = absl::MakeConstSpan(&view_, 1);
    call_.name = "t";
    call_.shape = shape_;
    call_.input = call_.output = values_;
    call_.dtype = static_cast<int32_t>(DType::kF32);
    call_.reduce_op = static_cast<int32_t>(ReduceOp::kSum);
    request_.reduce_op = ReduceOp::kSum;
  }
  void SetUp() override {
    const int64_t first = *table_.Submit(request_);
    table_.answers().OnSlotAssigned("t", 0, 5);
    RunSlot(5);
    table_.Release(first);
    link_.Take();
    const absl::StatusOr<Submission*> offered = table_.SubmitAndBeginWaiting(request_);
    ASSERT_TRUE(offered.ok()) << offered.status();
    ASSERT_TRUE(table_.has_offer());
    submission_ = driven_ = *offered;
  }
  void Meet() {
    const char zero[4] = {};
    EpochPage third(memory_, 2, kSize);
    for (EpochPage* const page : {&keeper_, &third}) page->rendezvous()->Offer(5, submission_->signature, {zero, 4});
    uint32_t slot = 0;
    ASSERT_EQ(table_.log().CompleteOffered(&slot, 0, &driven_), 4);
    EXPECT_EQ(slot, 5u);
  }

  const int64_t shape_[1] = {1};
  const TensorView view_ = {values_, values_, shape_};
  Request request_;
  NamedAllreduce call_;
  Submission* submission_ = nullptr;
  Submission* driven_ = nullptr;
};

TEST_F(MeetingTest, TheSubmissionIsOverAndMayBeRepeated) {
  Meet();
  EXPECT_EQ(driven_, nullptr);
  ASSERT_TRUE(table_.MayRepeat(call_));
  Submission* const repeated = table_.RepeatAndBeginWaiting(call_);
  ASSERT_EQ(repeated, submission_);
  EXPECT_EQ(StateOf(repeated->handle), "pending");
}

TEST_F(MeetingTest, ItsWaiterEndsOneThatAnotherThreadHasReleased) {
  table_.Release(submission_->handle);
  Meet();
  ASSERT_EQ(driven_, submission_);
  const absl::StatusOr<bool> complete = table_.DoneWaiting(submission_, /*release=*/true);
  EXPECT_TRUE(complete.ok() && *complete);
  EXPECT_FALSE(table_.MayRepeat(call_));
}

TEST_F(MeetingTest, WhatIsHeldForItGoesOn) {
  Request further = request_;
  further.name = "u";
  further.after = submission_->handle;
  ASSERT_TRUE(table_.Submit(further).ok());
  EXPECT_THAT(link_.Take(), IsEmpty());
  Meet();
  ASSERT_EQ(driven_, submission_);
  EXPECT_THAT(link_.Take(), ElementsAre("u"));
  const absl::StatusOr<bool> complete = table_.DoneWaiting(submission_, /*release=*/true);
  EXPECT_TRUE(complete.ok() && *complete);
}

TEST_F(LogOutcomesTest, AJoinIsPostedWhenAllThatWasSubmittedBeforeIs) {
  const int64_t early = *Submit("t");
  int32_t last = -1;
  const int64_t join = Join(&last);
  EXPECT_THAT(link_.Take(), ElementsAre("t", "unnamed.join"));
  EXPECT_THAT(PostedJoins(), IsEmpty());
  EXPECT_EQ(Submit("u").status(),
            absl::InvalidArgumentError("u: rank 1 has joined, and can submit nothing more until all ranks have"));
  table_.answers().OnSlotAssigned("t", 0, 5);
  EXPECT_THAT(PostedJoins(), ElementsAre(0));
  // The slot was retired meanwhile: its posts are sent again, and after them the join.
  table_.log().OnRetired(5);
  EXPECT_THAT(PostedJoins(), IsEmpty());
  table_.answers().OnSlotAssigned("t", 0, 6);
  EXPECT_THAT(PostedJoins(), ElementsAre(1));
  RunSlot(6);
  EXPECT_EQ(StateOf(early), "ok");
  EXPECT_TRUE(table_.HasJoined());
  link_.Take();
  table_.answers().AskAgain();
  EXPECT_THAT(link_.Take(), ElementsAre("unnamed.join")) << "a coordinator that was restarted is told";
  table_.log().OnAllJoined(2);
  EXPECT_EQ(StateOf(join), "ok");
  EXPECT_EQ(last, 2);
  EXPECT_FALSE(table_.HasJoined());
  EXPECT_TRUE(Submit("u").ok());
}

TEST_F(LogOutcomesTest, AJoinEndsWithWhoeverLeaves) {
  int32_t last = -1;
  const int64_t join = Join(&last);
  EXPECT_EQ(table_.OldestPendingAge(MonotonicNs() + 1'000'000'000), 0) << "who has joined is not stalled";
  table_.log().OnLeft(2, "rank 2");
  EXPECT_THAT(StateOf(join), HasSubstr("rank 2 has left"));
  EXPECT_EQ(last, -1);
}

TEST_F(LogOutcomesTest, WhatWasPostedInARetiredSlotIsAskedForAnewInItsOrder) {
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Submit("").ok());
  table_.answers().OnSlotAssigned("unnamed.allreduce", 0, 5);
  EXPECT_THAT(Posted(), ElementsAre(5, 5));
  link_.Take();
  table_.log().OnRetired(5);
  EXPECT_THAT(link_.Take(), ElementsAre("unnamed.allreduce retired 5"));
  EXPECT_THAT(Posted(), IsEmpty());
  table_.log().OnRetired(5);
  EXPECT_THAT(link_.Take(), IsEmpty());
  table_.answers().OnSlotAssigned("unnamed.allreduce", 0, 8);
  EXPECT_THAT(Posted(), ElementsAre(8, 8));
}

TEST_F(LogOutcomesTest, AnIdleNameIsForgottenWithItsSlot) {
  ASSERT_TRUE(Submit("t").ok());
  table_.answers().OnSlotAssigned("t", 0, 5);
  RunSlot(5);
  table_.log().OnRetired(5);
  EXPECT_THAT(table_.answers().Slots(), IsEmpty());
  link_.Take();
  ASSERT_TRUE(Submit("t").ok());
  EXPECT_THAT(link_.Take(), ElementsAre("t"));
}

TEST_F(LogOutcomesTest, ADisputeEndsTheOldestOfItsAttemptOnly) {
  const int64_t first = *Submit("");
  const int64_t second = *Submit("");
  table_.answers().OnSlotAssigned("unnamed.allreduce", 0, 5);
  link_.Take();
  table_.log().OnDispute(5, 1, 3);
  table_.log().OnDispute(5, 2, 3);
  EXPECT_THAT(link_.Take(), ElementsAre("unnamed.allreduce disputed 5.1", "unnamed.allreduce disputed 5.2"));
  table_.answers().OnMismatch({"unnamed.allreduce", 0, "second", 5, 2, 0});
  EXPECT_EQ(StateOf(first), "pending");
  EXPECT_EQ(StateOf(second), "second");
  table_.answers().AskAgain();
  EXPECT_THAT(link_.Take(), ElementsAre("unnamed.allreduce disputed 5.1"));
  table_.answers().OnMismatch({"unnamed.allreduce", 0, "first", 5, 1, 0});
  EXPECT_EQ(StateOf(first), "first");
  EXPECT_EQ(table_.pending(), 0);
}

TEST_F(LogOutcomesTest, ARankThatLeavesEndsItsGroupsOnly) {
  table_.answers().OnGroupAdded(1, {0, 1});
  const int64_t of_all = *Submit("a");
  const int64_t of_group = *Submit("a", {1}, 1);
  table_.log().OnLeft(2, "rank 2");
  EXPECT_EQ(StateOf(of_all), "rank 2 has left the job; nothing that needs it can complete any more");
  EXPECT_EQ(StateOf(of_group), "pending");
  EXPECT_EQ(Submit("b").status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Submit("b", {1}, 1).ok());
  EXPECT_THAT(table_.left(), ElementsAre(2));
}

TEST_F(LogOutcomesTest, ADisputeIsAnsweredAlsoWhereARankHasLeftMeanwhile) {
  const int64_t disputed = *Submit("a");
  const int64_t waiting = *Submit("b");
  table_.answers().OnSlotAssigned("a", 0, 5);
  table_.log().OnDispute(5, 1, 3);
  table_.log().OnLeft(2, "rank 2");
  EXPECT_EQ(StateOf(disputed), "pending");
  EXPECT_EQ(StateOf(waiting), "rank 2 has left the job; nothing that needs it can complete any more");
  table_.answers().OnMismatch({"a", 0, "differs", 5, 1, 0});
  EXPECT_EQ(StateOf(disputed), "differs");
}

TEST_F(LogOutcomesTest, WhoLeavesAfterOthersEndsItsDisputes) {
  const int64_t disputed = *Submit("a");
  table_.answers().OnSlotAssigned("a", 0, 5);
  table_.log().OnDispute(5, 1, 3);
  table_.log().OnLeft(2, "rank 2");
  table_.log().OnLeft(1, "rank 1");
  EXPECT_EQ(StateOf(disputed), "rank 2 has left the job; nothing that needs it can complete any more");
  EXPECT_EQ(table_.pending(), 0);
}

TEST_F(LogOutcomesTest, ADisputeThatACoordinatorHasForgottenEndsWithTheRankThatLeft) {
  const int64_t disputed = *Submit("a");
  table_.answers().OnSlotAssigned("a", 0, 5);
  table_.log().OnDispute(5, 1, 3);
  table_.log().OnLeft(2, "rank 2");
  link_.Take();
  table_.answers().AskAgain();
  EXPECT_EQ(StateOf(disputed), "rank 2 has left the job; nothing that needs it can complete any more");
  EXPECT_THAT(link_.Take(), IsEmpty());
}

// Small ones count by their whole time, those that run as a batch by their part of it.
TEST_F(LogOutcomesTest, ANamesTimesAreSummedUpOverTheEpoch) {
  std::vector<int64_t> handles;
  for (const std::string name : {"large", "less"}) handles.push_back(*Submit(name, {name == "large" ? 48 : 16}));
  table_.answers().OnSlotAssigned("large", 0, 5);
  table_.answers().OnSlotAssigned("less", 0, 6);
  const int64_t began_ns = MonotonicNs() + 1000 * kMs;
  Entry entry;
  for (const uint32_t slot : {5u, 6u}) entry.items.push_back({slot, 0, 1});
  absl::InlinedVector<Submission*, 2> taken;
  table_.log().Take(entry, began_ns, &taken);
  table_.log().Complete(taken, absl::OkStatus(), began_ns, began_ns + 8 * kMs);
  const v1::FlightRecords read = table_.ReadFlight(256, began_ns + 9 * kMs, true);
  EXPECT_EQ(table_.ReadFlight(256, began_ns).times_size(), 0) << "only where it is asked for";
  EXPECT_EQ(read.records_size(), 2);
  ASSERT_EQ(read.times_size(), 2);
  for (const v1::NameTimes& times : read.times()) {
    const bool is_large = times.name() == "large";
    EXPECT_EQ(times.finished(), 1u) << times.name();
    EXPECT_EQ(times.moved(), 1u) << times.name();
    EXPECT_EQ(times.bytes(), is_large ? 192u : 64u);
    EXPECT_EQ(times.moving_us(), is_large ? 6'000u : 2'000u);
    // Since the submission; the clock is the real one.
    EXPECT_GE(times.waited_us(), 999'000u) << times.name();
    EXPECT_EQ(times.op(), v1::OP_TYPE_ALLREDUCE);
  }
}

TEST_F(MeetingTest, ASmallOnesWaitIsItsWholeTime) {
  v1::FlightRecords read = table_.ReadFlight(256, MonotonicNs(), true);
  ASSERT_EQ(read.times_size(), 1);
  EXPECT_EQ(read.times(0).finished(), 1u) << "the open one does not count";
  const char zero[4] = {};
  EpochPage third(memory_, 2, kSize);
  for (EpochPage* const page : {&keeper_, &third}) page->rendezvous()->Offer(5, submission_->signature, {zero, 4});
  uint32_t slot = 0;
  ASSERT_EQ(table_.log().CompleteOffered(&slot, submission_->submitted_ns + 7'000'000, &driven_), 4);
  read = table_.ReadFlight(256, MonotonicNs(), true);
  EXPECT_EQ(read.times(0).finished(), 2u);
  EXPECT_EQ(read.times(0).moved(), 1u) << "the first, by the log";
  EXPECT_EQ(read.times(0).bytes(), 8u);
  EXPECT_EQ(read.times(0).waited_us(), 7'000u);
  EXPECT_EQ(read.times(0).moving_us(), 0u);
}

TEST_F(LogOutcomesTest, OfManyNamesThoseThatTookTheMostTimeAreTold) {
  constexpr uint32_t kNames = 520;
  for (uint32_t i = 0; i < kNames; ++i) {
    const int64_t handle = *Submit(absl::StrCat("t", i));
    table_.answers().OnSlotAssigned(absl::StrCat("t", i), 0, i + 1);
    Entry entry;
    entry.items.push_back({i + 1, 0, 1});
    absl::InlinedVector<Submission*, 2> taken;
    table_.log().Take(entry, MonotonicNs(), &taken);
    // The first take the most.
    table_.log().Complete(taken, absl::OkStatus(), 0, MonotonicNs() + (kNames - i) * 1000 * kMs);
    table_.Release(handle);
  }
  const v1::FlightRecords read = table_.ReadFlight(1, MonotonicNs(), true);
  EXPECT_EQ(read.times_size(), 512);
  EXPECT_EQ(read.times_left_out(), kNames - 512);
  for (const v1::NameTimes& times : read.times()) EXPECT_NE(times.name(), absl::StrCat("t", kNames - 1));
}

}  // namespace
}  // namespace farandole
