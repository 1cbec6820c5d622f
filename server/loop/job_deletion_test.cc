// The rows that remain in the store of jobs that were deleted, and of those that never were.

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "farandole/v1/store.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/loop/job_loop_fixture.h"
#include "server/loop/job_rows.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(JobLoopTest, ADeletedJobLeavesOnlyWhatANewOneMustNotRepeat) {
  const auto loop = MakeLoop();
  Form(loop.get());
  ASSERT_TRUE(loop->Push(kJob, DeleteRequested{5}).ok());
  EXPECT_THAT(outputs_.NextReply().status.message(), HasSubstr("job train runs"));
  WriteCheckpoints(loop.get(), 250);
  ASSERT_TRUE(loop->Push(kJob, LeaveOn(1)).ok());
  EXPECT_TRUE(AwaitClose(1).ok());
  ASSERT_TRUE(loop->Push(kJob, DeleteRequested{6}).ok());
  // It comes while rows are purged, and after that.
  ASSERT_TRUE(loop->Push(kJob, JobInspected{7}).ok());
  EXPECT_TRUE(outputs_.NextReply().status.ok());
  EXPECT_EQ(outputs_.NextReply().status.code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(directory_.Knows(kJob));
  EXPECT_THAT(KeysNow(), ElementsAre("gone/default/train", "owner/"));

  ASSERT_TRUE(loop->Push(kJob, JoinOf(8, 3, 1)).ok());
  EXPECT_TRUE(outputs_.NextReply().status.ok());
  ASSERT_TRUE(loop->Push(kJob, StreamOf(2, 3)).ok());
  EXPECT_EQ(AwaitEpoch(), 2u) << "no epoch is repeated";
  ASSERT_TRUE(loop->Push(kJob, CheckpointsListed{9}).ok());
  EXPECT_EQ(std::get<v1::ListCheckpointsResponse>(outputs_.NextReply().message).checkpoints_size(), 0);
  EXPECT_THAT(KeysNow(), ElementsAre("job/default/train", "members/default/train", "owner/", "owner/default/train",
                                     "summary/default/train"));
}

TEST_F(JobLoopTest, ADeletionThatWasCutOffIsFinishedBeforeANewJobBegins) {
  const uint64_t revision = AcquireAndWait(&store_, kJob.Text()).value();
  v1::GoneRecord gone;
  gone.set_last_epoch(4);
  gone.set_deleted_unix_ms(absl::ToUnixMillis(absl::Now()));
  ASSERT_TRUE(CommitAndWait(&store_, kJob.Text(), revision,
                            StoreBatch{{},
                                       {{"gone/default/train", gone.SerializeAsString()},
                                        {"purge/default/train", ""},
                                        {"checkpoint/default/train/x/1", "a checkpoint of the deleted job"}}})
                  .ok());
  const auto loop = MakeLoop();
  ASSERT_TRUE(loop->Push(kJob, JoinOf(8, 3, 1)).ok());
  EXPECT_TRUE(outputs_.NextReply().status.ok());
  ASSERT_TRUE(loop->Push(kJob, StreamOf(2, 3)).ok());
  EXPECT_EQ(AwaitEpoch(), 5u);
  EXPECT_THAT(KeysNow(), ElementsAre("job/default/train", "members/default/train", "owner/", "owner/default/train",
                                     "summary/default/train"));
}

TEST_F(JobLoopTest, ADeletedJobIsForgottenForGoodAfterItsTime) {
  const auto loop = MakeLoop();
  for (const absl::Duration age : {kGoneKept - absl::Hours(1), kGoneKept + absl::Hours(1)}) {
    const uint64_t revision = AcquireAndWait(&store_, kJob.Text()).value();
    v1::GoneRecord gone;
    gone.set_deleted_unix_ms(absl::ToUnixMillis(absl::Now() - age));
    const StoreBatch row{{}, {{"gone/default/train", gone.SerializeAsString()}}};
    ASSERT_TRUE(CommitAndWait(&store_, kJob.Text(), revision, row).ok());
    loop->Purge(kJob);
    while (KeysNow().back() != "owner/") {
    }
    EXPECT_EQ(KeysNow().size(), age < kGoneKept ? 2u : 1u);
  }
}

TEST_F(JobLoopTest, ALaunchOfWhichNothingComesLeavesNothingAndGoesAtOnce) {
  const auto loop = MakeLoop();
  JobClaimed claim{1, {}};
  claim.request.set_job(kJob.job);
  claim.request.mutable_launch()->set_nonce("0123456789abcdef");
  claim.request.mutable_launch()->set_who("a test");
  claim.request.set_most_workers(1);
  ASSERT_TRUE(loop->Push(kJob, claim).ok());
  EXPECT_TRUE(outputs_.NextReply().status.ok());
  claim.request.set_release(true);
  ASSERT_TRUE(loop->Push(kJob, claim).ok());
  EXPECT_TRUE(outputs_.NextReply().status.ok());
  while (KeysNow() != std::vector<std::string>{"owner/"}) {
  }
}

}  // namespace
}  // namespace farandole
