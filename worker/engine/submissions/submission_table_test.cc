#include "worker/engine/submissions/submission_table.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/submissions/test_requests.h"
#include "worker/order/epoch_page.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Records the messages: "NAME retired RETIRED disputed SLOT.ATTEMPT ordinal ORDINAL", "retired SLOT".
class RecordedLink final : public ControlLink {
 public:
  void Negotiate(const Submission& submission, uint32_t retired_slot, uint32_t disputed_slot, uint32_t attempt,
                 uint32_t ordinal) override {
    said.push_back(
        submission.name + (retired_slot == 0 ? "" : " retired " + std::to_string(retired_slot)) +
        (disputed_slot == 0 ? "" : " disputed " + std::to_string(disputed_slot) + "." + std::to_string(attempt)) +
        (ordinal == 0 ? "" : " ordinal " + std::to_string(ordinal)));
  }
  void ReportRetired(uint32_t slot) override { said.push_back("retired " + std::to_string(slot)); }
  std::vector<std::string> Take() { return std::exchange(said, {}); }

  std::vector<std::string> said;
};

// Rank 1's table in an epoch of three, with rank 0's end of the page to read what it posts.
class SubmissionTableTest : public ::testing::Test {
 protected:
  static constexpr int kSize = 3;

  SubmissionTableTest() { bell_.SetAttention(Attention::kUnconcerned); }
  ~SubmissionTableTest() override { ::operator delete[](memory_, std::align_val_t(64)); }

  absl::StatusOr<int64_t> Submit(const std::string& name, std::vector<int64_t> shape = {1}, uint32_t group = 0) {
    const TensorView view = {values_, values_, shape};
    Request request;
    request.name = name;
    request.group = group;
    request.tensors = absl::MakeConstSpan(&view, 1);
    return table_.Submit(request);
  }
  // The slots of the posts since then.
  std::vector<uint32_t> Posted() {
    std::vector<uint32_t> slots;
    Post post;
    while (keeper_.ReadPost(1, &post)) slots.push_back(post.slot);
    return slots;
  }
  int64_t Join(int32_t* last) {
    TensorView view;
    const absl::StatusOr<int64_t> handle = table_.Submit(JoinRequest(last, &view));
    EXPECT_TRUE(handle.ok()) << handle.status();
    return handle.ok() ? *handle : 0;
  }
  // How many submissions were returned, by each join that was posted since.
  std::vector<int64_t> PostedJoins() {
    std::vector<int64_t> returned;
    Post post;
    while (keeper_.ReadPost(1, &post)) {
      if (post.kind == Post::Kind::kJoin) returned.push_back(post.count);
    }
    return returned;
  }
  // "pending", "ok", or the error.
  std::string StateOf(int64_t handle) {
    Submission* submission = table_.BeginWaiting(handle);
    if (submission == nullptr) return "unknown";
    const absl::StatusOr<bool> complete = table_.DoneWaiting(submission, /*release=*/false);
    if (!complete.ok()) return std::string(complete.status().message());
    return *complete ? "ok" : "pending";
  }
  void RunSlot(uint32_t slot) {
    Entry entry;
    entry.items.push_back({slot, 0, 1});
    absl::InlinedVector<Submission*, 2> taken;
    table_.Take(entry, 0, &taken);
    ASSERT_NE(taken[0], nullptr);
    table_.Complete(taken, absl::OkStatus(), 0);
  }

  float values_[64] = {};
  char* memory_ = new (std::align_val_t(64)) char[EpochPage::Bytes(kSize)]();
  EpochPage keeper_{memory_, 0, kSize};
  EpochPage page_{memory_, 1, kSize};
  Doorbell& bell_ = page_.doorbell();
  RecordedLink link_;
  SubmissionTable table_{1, kSize, &page_, &link_, MonotonicNs, nullptr, 0, nullptr, /*most_asked=*/4};
};

TEST_F(SubmissionTableTest, ANewNameIsAskedForOnceAndPostedWhenItsSlotIsKnown) {
  const int64_t handle = *Submit("t");
  EXPECT_THAT(link_.Take(), ElementsAre("t"));
  EXPECT_THAT(Posted(), IsEmpty());
  table_.OnSlotAssigned("t", 0, 5);
  EXPECT_THAT(Posted(), ElementsAre(5));
  EXPECT_EQ(StateOf(handle), "pending");
  RunSlot(5);
  EXPECT_EQ(StateOf(handle), "ok");
  ASSERT_TRUE(Submit("t").ok());
  EXPECT_THAT(Posted(), ElementsAre(5));
  EXPECT_THAT(link_.Take(), IsEmpty());
}

TEST_F(SubmissionTableTest, NamesBeyondThoseThatAreAskedForAtATimeWaitForAnswers) {
  for (const char* name : {"w", "x", "a", "b", "c", "d", "e"}) ASSERT_TRUE(Submit(name).ok());
  EXPECT_THAT(link_.Take(), ElementsAre("w", "x", "a", "b"));
  EXPECT_EQ(table_.ReadActivity(MonotonicNs()).unasked(), 3u);
  table_.OnSlotAssigned("b", 0, 1);
  EXPECT_THAT(link_.Take(), ElementsAre("c"));
  table_.OnMismatch({"a", 0, "a: the ranks differ"});
  EXPECT_THAT(link_.Take(), ElementsAre("d"));
  // After a reattachment the table asks only for what it had asked for.
  table_.AskAgain();
  EXPECT_THAT(link_.Take(), UnorderedElementsAre("w", "x", "c", "d"));
  // A joined rank is given the slot of a name for which it has not asked.
  table_.OnSlotAssigned("e", 0, 2);
  EXPECT_THAT(Posted(), ElementsAre(1, 2));
  table_.OnSlotAssigned("c", 0, 3);
  ASSERT_TRUE(Submit("f").ok());
  EXPECT_THAT(link_.Take(), ElementsAre("f"));
}

TEST_F(SubmissionTableTest, UnnamedSubmissionsShareASlotForTheirOp) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Submit("").ok());
  EXPECT_THAT(link_.Take(), ElementsAre("unnamed.allreduce"));
  table_.OnSlotAssigned("unnamed.allreduce", 0, 9);
  EXPECT_THAT(Posted(), ElementsAre(9, 9, 9));
}

TEST_F(SubmissionTableTest, TheBellIsConcernedBeforeTheFirstPost) {
  ASSERT_TRUE(Submit("t").ok());
  const uint32_t ticket = bell_.Ticket();
  bell_.Ring();
  EXPECT_NE(bell_.Ticket(), ticket);
}

TEST_F(SubmissionTableTest, RefusesWhatIsWrongInOneSentence) {
  const struct {
    std::string name;
    std::vector<int64_t> shape;
    uint32_t group;
    std::string sentence;
  } cases[] = {
      {"t", {-1, 2}, 0, "t: shape [-1,2] has a negative dimension"},
      {"t", std::vector<int64_t>(33, 1), 0, "t: has 33 dimensions, at most 32 are allowed"},
      {"t", {1}, 7, "t: there is no process set 7 in this epoch"},
      {"unnamed.x", {1}, 0, "unnamed.x: names that start with \"unnamed.\" are reserved"},
      {std::string(513, 'n'), {1}, 0, "a tensor's name has 513 bytes, at most 512 are allowed"},
      {"t", {int64_t{1} << 62, 4}, 0, "t: shape [4611686018427387904,4] of float32 makes more than 137438953472 bytes"},
      {"t", {0, int64_t{1} << 40, int64_t{1} << 40}, 0, "makes more than 137438953472 bytes"},
  };
  for (const auto& tested : cases) {
    const absl::Status status = Submit(tested.name, tested.shape, tested.group).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(tested.sentence));
  }
  EXPECT_EQ(table_.pending(), 0);
  EXPECT_THAT(link_.Take(), IsEmpty());
}

TEST_F(SubmissionTableTest, RefusesOpsThatDoNotFitTheirTensors) {
  const int64_t shape[] = {30};
  const TensorView views[] = {{values_, values_, shape}, {values_, values_, shape}};
  Request request;
  request.name = "t";
  request.op = OpType::kBarrier;
  request.tensors = absl::MakeConstSpan(views, 1);
  EXPECT_EQ(table_.Submit(request).status(), absl::InvalidArgumentError("t: a barrier takes no tensor, not 1"));
  request.op = OpType::kAllgather;
  request.tensors = absl::MakeConstSpan(views, 2);
  EXPECT_EQ(table_.Submit(request).status(), absl::InvalidArgumentError("t: takes one tensor, not 2"));
  request.op = OpType::kReducescatter;
  TensorView scalar = views[0];
  scalar.shape = {};
  request.tensors = absl::MakeConstSpan(&scalar, 1);
  EXPECT_EQ(table_.Submit(request).status(),
            absl::InvalidArgumentError("t: a reducescatter shares out the rows of a tensor, and a scalar has none"));
  request.op = OpType::kBroadcast;
  request.root_rank = 3;
  request.tensors = absl::MakeConstSpan(views, 1);
  EXPECT_EQ(table_.Submit(request).status(),
            absl::InvalidArgumentError("t: root rank 3 is not in process set 0 of ranks [0,1,2]"));
}

TEST_F(SubmissionTableTest, AJoinIsPostedWhenAllThatWasSubmittedBeforeIs) {
  const int64_t early = *Submit("t");
  int32_t last = -1;
  const int64_t join = Join(&last);
  EXPECT_THAT(link_.Take(), ElementsAre("t", "unnamed.join"));
  EXPECT_THAT(PostedJoins(), IsEmpty());
  EXPECT_EQ(Submit("u").status(),
            absl::InvalidArgumentError("u: rank 1 has joined, and can submit nothing more until all ranks have"));
  table_.OnSlotAssigned("t", 0, 5);
  EXPECT_THAT(PostedJoins(), ElementsAre(0));
  // The slot was retired meanwhile: its posts are sent again, and after them the join.
  table_.OnRetired(5);
  EXPECT_THAT(PostedJoins(), IsEmpty());
  table_.OnSlotAssigned("t", 0, 6);
  EXPECT_THAT(PostedJoins(), ElementsAre(1));
  RunSlot(6);
  EXPECT_EQ(StateOf(early), "ok");
  EXPECT_TRUE(table_.HasJoined());
  link_.Take();
  table_.AskAgain();
  EXPECT_THAT(link_.Take(), ElementsAre("unnamed.join")) << "a coordinator that was restarted is told";
  table_.OnAllJoined(2);
  EXPECT_EQ(StateOf(join), "ok");
  EXPECT_EQ(last, 2);
  EXPECT_FALSE(table_.HasJoined());
  EXPECT_TRUE(Submit("u").ok());
}

TEST_F(SubmissionTableTest, AJoinEndsWithWhoeverLeaves) {
  int32_t last = -1;
  const int64_t join = Join(&last);
  EXPECT_EQ(table_.OldestPendingAge(MonotonicNs() + 1'000'000'000), 0) << "who has joined is not stalled";
  table_.OnLeft(2, "rank 2");
  EXPECT_THAT(StateOf(join), HasSubstr("rank 2 has left"));
  EXPECT_EQ(last, -1);
}

TEST_F(SubmissionTableTest, ARankOutsideAGroupIsTold) {
  table_.OnGroupAdded(1, {0, 2});
  EXPECT_EQ(Submit("t", {1}, 1).status(),
            absl::InvalidArgumentError("t: rank 1 is not in process set 1 of ranks [0,2]"));
}

TEST_F(SubmissionTableTest, WhatWasPostedInARetiredSlotIsAskedForAnewInItsOrder) {
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Submit("").ok());
  table_.OnSlotAssigned("unnamed.allreduce", 0, 5);
  EXPECT_THAT(Posted(), ElementsAre(5, 5));
  link_.Take();
  table_.OnRetired(5);
  EXPECT_THAT(link_.Take(), ElementsAre("unnamed.allreduce retired 5"));
  EXPECT_THAT(Posted(), IsEmpty());
  table_.OnRetired(5);
  EXPECT_THAT(link_.Take(), IsEmpty());
  table_.OnSlotAssigned("unnamed.allreduce", 0, 8);
  EXPECT_THAT(Posted(), ElementsAre(8, 8));
}

TEST_F(SubmissionTableTest, AnIdleNameIsForgottenWithItsSlot) {
  ASSERT_TRUE(Submit("t").ok());
  table_.OnSlotAssigned("t", 0, 5);
  RunSlot(5);
  table_.OnRetired(5);
  EXPECT_THAT(table_.Slots(), IsEmpty());
  link_.Take();
  ASSERT_TRUE(Submit("t").ok());
  EXPECT_THAT(link_.Take(), ElementsAre("t"));
}

TEST_F(SubmissionTableTest, ADisputeEndsTheOldestOfItsAttemptOnly) {
  const int64_t first = *Submit("");
  const int64_t second = *Submit("");
  table_.OnSlotAssigned("unnamed.allreduce", 0, 5);
  link_.Take();
  table_.OnDispute(5, 1, 3);
  table_.OnDispute(5, 2, 3);
  EXPECT_THAT(link_.Take(), ElementsAre("unnamed.allreduce disputed 5.1", "unnamed.allreduce disputed 5.2"));
  table_.OnMismatch({"unnamed.allreduce", 0, "second", 5, 2, 0});
  EXPECT_EQ(StateOf(first), "pending");
  EXPECT_EQ(StateOf(second), "second");
  table_.AskAgain();
  EXPECT_THAT(link_.Take(), ElementsAre("unnamed.allreduce disputed 5.1"));
  table_.OnMismatch({"unnamed.allreduce", 0, "first", 5, 1, 0});
  EXPECT_EQ(StateOf(first), "first");
  EXPECT_EQ(table_.pending(), 0);
}

TEST_F(SubmissionTableTest, AMismatchOfANewNameEndsOneAndAsksForTheNext) {
  const int64_t first = *Submit("");
  ASSERT_TRUE(Submit("").ok());
  EXPECT_THAT(link_.Take(), ElementsAre("unnamed.allreduce"));
  table_.OnMismatch({"unnamed.allreduce", 0, "differs", 0, 0, 0});
  EXPECT_EQ(StateOf(first), "differs");
  EXPECT_THAT(link_.Take(), ElementsAre("unnamed.allreduce"));
  EXPECT_EQ(table_.pending(), 1);
}

TEST_F(SubmissionTableTest, TheEndIsToldToAllThatDoesNotRunAndTheFirstReasonStays) {
  const int64_t waiting = *Submit("a");
  const int64_t posted = *Submit("b");
  const int64_t running = *Submit("c");
  table_.OnSlotAssigned("b", 0, 1);
  table_.OnSlotAssigned("c", 0, 2);
  Entry entry;
  entry.items.push_back({2, 0, 1});
  absl::InlinedVector<Submission*, 2> taken;
  table_.Take(entry, 0, &taken);
  table_.End(absl::AbortedError("first"));
  table_.End(absl::AbortedError("second"));
  EXPECT_EQ(StateOf(waiting), "first");
  EXPECT_EQ(StateOf(posted), "first");
  EXPECT_EQ(StateOf(running), "pending");
  table_.Complete(taken, table_.ended(), 0);
  EXPECT_EQ(StateOf(running), "first");
  EXPECT_EQ(Submit("d").status(), absl::AbortedError("first"));
}

TEST_F(SubmissionTableTest, ARankThatLeavesEndsItsGroupsOnly) {
  table_.OnGroupAdded(1, {0, 1});
  const int64_t of_all = *Submit("a");
  const int64_t of_group = *Submit("a", {1}, 1);
  table_.OnLeft(2, "rank 2");
  EXPECT_EQ(StateOf(of_all), "rank 2 has left the job; nothing that needs it can complete any more");
  EXPECT_EQ(StateOf(of_group), "pending");
  EXPECT_EQ(Submit("b").status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Submit("b", {1}, 1).ok());
  EXPECT_THAT(table_.left(), ElementsAre(2));
}

TEST_F(SubmissionTableTest, ADisputeIsAnsweredAlsoWhereARankHasLeftMeanwhile) {
  const int64_t disputed = *Submit("a");
  const int64_t waiting = *Submit("b");
  table_.OnSlotAssigned("a", 0, 5);
  table_.OnDispute(5, 1, 3);
  table_.OnLeft(2, "rank 2");
  EXPECT_EQ(StateOf(disputed), "pending");
  EXPECT_EQ(StateOf(waiting), "rank 2 has left the job; nothing that needs it can complete any more");
  table_.OnMismatch({"a", 0, "differs", 5, 1, 0});
  EXPECT_EQ(StateOf(disputed), "differs");
}

TEST_F(SubmissionTableTest, ADisagreementIsCountedAndKeptUntilTheNameHasASlot) {
  const int64_t first = *Submit("a");
  EXPECT_THAT(link_.Take(), ElementsAre("a"));
  table_.OnMismatch({"a", 0, "differs", 0, 0, 1});
  EXPECT_EQ(StateOf(first), "differs");
  const int64_t second = *Submit("a");
  EXPECT_THAT(link_.Take(), ElementsAre("a ordinal 1"));
  table_.AskAgain();
  EXPECT_THAT(link_.Take(), ElementsAre("a ordinal 1"));
  ASSERT_EQ(table_.Told().size(), 1u);
  EXPECT_EQ(table_.Told()[0].sentence, "differs");
  EXPECT_EQ(table_.Told()[0].next_ordinal, 1u);
  table_.OnSlotAssigned("a", 0, 5);
  EXPECT_THAT(table_.Told(), IsEmpty());
  table_.OnDispute(5, 1, 3);
  table_.OnMismatch({"a", 0, "differs in its slot", 5, 1, 0});
  EXPECT_EQ(StateOf(second), "differs in its slot");
  ASSERT_EQ(table_.Told().size(), 1u);
  EXPECT_EQ(table_.Told()[0].attempt, 1u);
  table_.OnRetired(5);
  EXPECT_THAT(table_.Told(), IsEmpty());
}

TEST_F(SubmissionTableTest, WhoLeavesAfterOthersEndsItsDisputes) {
  const int64_t disputed = *Submit("a");
  table_.OnSlotAssigned("a", 0, 5);
  table_.OnDispute(5, 1, 3);
  table_.OnLeft(2, "rank 2");
  table_.OnLeft(1, "rank 1");
  EXPECT_EQ(StateOf(disputed), "rank 2 has left the job; nothing that needs it can complete any more");
  EXPECT_EQ(table_.pending(), 0);
}

TEST_F(SubmissionTableTest, ADisputeThatACoordinatorHasForgottenEndsWithTheRankThatLeft) {
  const int64_t disputed = *Submit("a");
  table_.OnSlotAssigned("a", 0, 5);
  table_.OnDispute(5, 1, 3);
  table_.OnLeft(2, "rank 2");
  link_.Take();
  table_.AskAgain();
  EXPECT_EQ(StateOf(disputed), "rank 2 has left the job; nothing that needs it can complete any more");
  EXPECT_THAT(link_.Take(), IsEmpty());
}

TEST_F(SubmissionTableTest, ARemovedGroupEndsWhatIsPendingInIt) {
  table_.OnGroupAdded(1, {0, 1});
  const int64_t handle = *Submit("a", {1}, 1);
  EXPECT_FALSE(table_.IsIdle(1));
  table_.OnGroupRemoved(1);
  EXPECT_EQ(StateOf(handle), "process set 1 was removed");
  EXPECT_EQ(table_.pending(), 0);
  EXPECT_EQ(Submit("a", {1}, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SubmissionTableTest, WhoIsToldThatItIsPendingKeepsTheHandle) {
  const int64_t handle = *Submit("t");
  table_.OnSlotAssigned("t", 0, 1);
  Submission* submission = table_.BeginWaiting(handle);
  const absl::StatusOr<bool> complete = table_.DoneWaiting(submission, /*release=*/true);
  ASSERT_TRUE(complete.ok());
  EXPECT_FALSE(*complete);
  RunSlot(1);
  submission = table_.BeginWaiting(handle);
  ASSERT_NE(submission, nullptr);
  EXPECT_TRUE(*table_.DoneWaiting(submission, /*release=*/true));
  EXPECT_EQ(StateOf(handle), "unknown");
}

TEST_F(SubmissionTableTest, ASubmissionStaysInPlaceWhileAThreadWaitsForIt) {
  const int64_t handle = *Submit("t");
  table_.OnSlotAssigned("t", 0, 1);
  Submission* one = table_.BeginWaiting(handle);
  Submission* other = table_.BeginWaiting(handle);
  table_.Release(handle);
  EXPECT_EQ(table_.BeginWaiting(handle), nullptr);
  RunSlot(1);
  EXPECT_TRUE(*table_.DoneWaiting(one, true));
  EXPECT_TRUE(other->in_use);
  EXPECT_TRUE(*table_.DoneWaiting(other, true));
  EXPECT_FALSE(other->in_use);
  EXPECT_NE(*Submit("u"), handle);
}

TEST_F(SubmissionTableTest, PostsBeyondTheRingWaitInOrder) {
  for (int i = 0; i < 1100; ++i) ASSERT_TRUE(Submit("").ok());
  table_.OnSlotAssigned("unnamed.allreduce", 0, 3);
  EXPECT_TRUE(table_.HasUnposted());
  EXPECT_FALSE(table_.FlushPosts());
  EXPECT_EQ(Posted().size(), 1024u);
  EXPECT_TRUE(table_.FlushPosts());
  EXPECT_FALSE(table_.HasUnposted());
  EXPECT_EQ(Posted().size(), 76u);
}

TEST_F(SubmissionTableTest, ATableThatFollowsGivesNoHandleOfTheOneBefore) {
  const int64_t released = *Submit("t");
  table_.OnSlotAssigned("t", 0, 5);
  RunSlot(5);
  table_.Release(released);
  const int64_t handle = *Submit("t");
  EXPECT_NE(handle, released);
  SubmissionTable next(1, kSize, &page_, &link_, MonotonicNs, nullptr, table_.next_handles());
  const TensorView view = {values_, values_, {}};
  Request request;
  request.tensors = absl::MakeConstSpan(&view, 1);
  EXPECT_GT(*next.Submit(request), std::max(released, handle));
  EXPECT_EQ(next.BeginWaiting(handle), nullptr);
  EXPECT_EQ(next.BeginWaiting(released), nullptr);
}

TEST_F(SubmissionTableTest, ActivityTellsTheOldestFirst) {
  const int64_t first = *Submit("a");
  ASSERT_TRUE(Submit("b").ok());
  const v1::StallReport activity = table_.ReadActivity(MonotonicNs());
  ASSERT_EQ(activity.pending_size(), 2);
  EXPECT_EQ(activity.pending(0).name(), "a");
  EXPECT_EQ(activity.last_submitted(), "b");
  EXPECT_GT(table_.OldestPendingAge(MonotonicNs()), 0);
  table_.Release(first);
  EXPECT_EQ(table_.pending(), 2) << "a released submission goes on";
}

TEST(SignatureTest, DiffersWithAllThatRanksMustAgreeAboutAndWithNothingElse) {
  Submission base;
  base.dims = {4, 8};
  base.ndims = {2};
  std::vector<Submission> others(8);
  for (Submission& other : others) {
    other.dims = base.dims;
    other.ndims = base.ndims;
  }
  others[0].dims = {8, 4};
  others[1].ndims = {1, 1};
  others[2].dtype = DType::kF64;
  others[3].reduce_op = ReduceOp::kMax;
  others[4].prescale = 2.0;
  others[5].postscale = 2.0;
  others[6].op = OpType::kBroadcast;
  others[7].root = 1;
  for (const Submission& other : others) EXPECT_NE(SignatureOf(other), SignatureOf(base));
  Submission same;
  same.dims = {4, 8};
  same.ndims = {2};
  same.name = "other";
  same.submitted_ns = 7;
  EXPECT_EQ(SignatureOf(same), SignatureOf(base));
}

TEST(SignatureTest, LeavesOutTheRowsOfAGather) {
  Submission one;
  one.op = OpType::kAllgather;
  one.dims = {4, 8};
  one.ndims = {2};
  Submission other;
  other.op = OpType::kAllgather;
  other.dims = {5, 8};
  other.ndims = {2};
  EXPECT_EQ(SignatureOf(one), SignatureOf(other));
  other.dims = {5, 9};
  EXPECT_NE(SignatureOf(one), SignatureOf(other));
}

}  // namespace
}  // namespace farandole
