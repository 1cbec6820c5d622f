#include "worker/engine/submissions/submission_table.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/submissions/submission_fixture.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SubmissionTableTest : public SubmissionFixture {};

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

TEST_F(SubmissionTableTest, TheEndIsToldToAllThatDoesNotRunAndTheFirstReasonStays) {
  const int64_t waiting = *Submit("a");
  const int64_t posted = *Submit("b");
  const int64_t running = *Submit("c");
  table_.answers().OnSlotAssigned("b", 0, 1);
  table_.answers().OnSlotAssigned("c", 0, 2);
  Entry entry;
  entry.items.push_back({2, 0, 1});
  absl::InlinedVector<Submission*, 2> taken;
  table_.log().Take(entry, 0, &taken);
  table_.End(absl::AbortedError("first"));
  table_.End(absl::AbortedError("second"));
  EXPECT_EQ(StateOf(waiting), "first");
  EXPECT_EQ(StateOf(posted), "first");
  EXPECT_EQ(StateOf(running), "pending");
  table_.log().Complete(taken, table_.ended(), 0, 0);
  EXPECT_EQ(StateOf(running), "first");
  EXPECT_EQ(Submit("d").status(), absl::AbortedError("first"));
}

TEST_F(SubmissionTableTest, WhoIsToldThatItIsPendingKeepsTheHandle) {
  const int64_t handle = *Submit("t");
  table_.answers().OnSlotAssigned("t", 0, 1);
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
  table_.answers().OnSlotAssigned("t", 0, 1);
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
  table_.answers().OnSlotAssigned("unnamed.allreduce", 0, 3);
  EXPECT_TRUE(table_.HasUnposted());
  EXPECT_FALSE(table_.FlushPosts());
  EXPECT_EQ(Posted().size(), 1024u);
  EXPECT_TRUE(table_.FlushPosts());
  EXPECT_FALSE(table_.HasUnposted());
  EXPECT_EQ(Posted().size(), 76u);
}

TEST_F(SubmissionTableTest, ATableThatFollowsGivesNoHandleOfTheOneBefore) {
  const int64_t released = *Submit("t");
  table_.answers().OnSlotAssigned("t", 0, 5);
  RunSlot(5);
  table_.Release(released);
  const int64_t handle = *Submit("t");
  EXPECT_NE(handle, released);
  SubmissionTable next(SubmissionOptions{1, kSize, &page_, &link_, MonotonicNs, nullptr, table_.next_handles()});
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
