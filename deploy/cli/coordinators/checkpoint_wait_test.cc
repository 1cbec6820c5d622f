#include "deploy/cli/coordinators/checkpoint_wait.h"

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/cli/coordinators/coordinator_session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class CheckpointWaitTest : public CoordinatorFixture {
 protected:
  void SetUp() override {
    Start();
    workers_ = Train("mnist", 2);
    source_.coordinator = coordinator_->address();
    source_.token_file = coordinator_->token_file();
    survey_ = AskAll(source_, absl::Now());
    ASSERT_TRUE(survey_.ok()) << survey_.status();
    job_ = FindJob(*survey_, source_, "", "mnist");
    ASSERT_TRUE(job_.ok()) << job_.status();
  }

  v1::WantedCheckpoint Ask() const {
    const auto wanted = job_->session->RequestCheckpoint("", "mnist");
    EXPECT_TRUE(wanted.ok()) << wanted.status();
    return *wanted;
  }
  // Rank 0 begins to write a checkpoint; its fencing token.
  uint64_t Begin(int64_t step) {
    v1::BeginCheckpointRequest request;
    request.set_job("mnist");
    request.set_incarnation(workers_[0]->incarnation());
    request.set_secret(workers_[0]->secret());
    request.set_epoch(1);
    request.set_name("net");
    request.set_step(step);
    request.set_idempotency_key(absl::StrCat("begin", step));
    const auto granted = workers_[0]->client().BeginCheckpoint(request);
    EXPECT_TRUE(granted.ok()) << granted.status();
    return granted->token();
  }
  void Commit(int64_t step, uint64_t token) {
    v1::CommitCheckpointRequest request;
    request.set_job("mnist");
    request.set_incarnation(workers_[0]->incarnation());
    request.set_secret(workers_[0]->secret());
    v1::Checkpoint* checkpoint = request.mutable_checkpoint();
    checkpoint->set_name("net");
    checkpoint->set_step(step);
    checkpoint->set_token(token);
    checkpoint->set_path(absl::StrCat("/data/net-", step, ".t", token, ".txt"));
    checkpoint->set_sha256(std::string(32, 'x'));
    checkpoint->set_epoch(1);
    const auto committed = workers_[0]->client().CommitCheckpoint(request);
    EXPECT_TRUE(committed.ok()) << committed.status();
  }
  absl::StatusOr<v1::Checkpoint> Await(const v1::WantedCheckpoint& asked, absl::Duration patience = absl::Seconds(20)) {
    std::ostringstream said;
    return AwaitCheckpoint(*job_, asked, source_, patience, said);
  }

  std::vector<std::unique_ptr<TestWorker>> workers_;
  CoordinatorSource source_;
  absl::StatusOr<Survey> survey_;
  absl::StatusOr<KnownJob> job_;
};

TEST_F(CheckpointWaitTest, EachRequestGetsACheckpointThatWasBegunAfterIt) {
  const v1::WantedCheckpoint first = Ask();
  const uint64_t token = Begin(1);
  // The checkpoint that is being written is older than this request.
  const v1::WantedCheckpoint second = Ask();
  EXPECT_EQ(second.serial(), first.serial() + 1);
  Commit(1, token);
  const auto written = Await(first);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->step(), 1);
  const absl::Status pending = Await(second, absl::Milliseconds(300)).status();
  EXPECT_EQ(pending.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(pending.message()),
              ContainsRegex("job mnist: its program does not know of the request after [0-9]+ s"));
  Commit(2, Begin(2));
  const auto newer = Await(second);
  ASSERT_TRUE(newer.ok()) << newer.status();
  EXPECT_EQ(newer->step(), 2);
  EXPECT_EQ(Await(first)->step(), 1) << "the first one that was begun after the request";
}

TEST_F(CheckpointWaitTest, AJobThatEndsOrIsDeletedHasNone) {
  const v1::WantedCheckpoint asked = Ask();
  ASSERT_TRUE(job_->session->AbortJob("", "mnist", "enough", v1::AbortJobRequest::OPERATOR).ok());
  const absl::Status ended = Await(asked).status();
  EXPECT_EQ(ended.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(ended.message()), HasSubstr("job mnist has written no checkpoint: the job ended before: "));
  ASSERT_TRUE(job_->session->DeleteJob("", "mnist").ok());
  EXPECT_EQ(Await(asked).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointWaitTest, ACoordinatorThatIsAwayIsNamed) {
  const v1::WantedCheckpoint asked = Ask();
  workers_.clear();
  coordinator_.reset();
  const absl::Status status = Await(asked, absl::Seconds(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("its coordinator has not said for 1 s whether"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("is unreachable"));
}

}  // namespace
}  // namespace farandole
