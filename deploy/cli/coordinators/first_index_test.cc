#include "deploy/cli/coordinators/first_index.h"

#include "deploy/cli/coordinators/refusing_coordinator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A coordinator whose job "train" runs, unless the test says otherwise.
class FirstIndexTest : public testing::Test {
 protected:
  FirstIndexTest() { coordinator_.job.set_state(v1::JOB_STATE_RUNNING); }

  absl::StatusOr<int> Find(absl::Duration patience = absl::Minutes(1)) {
    return FindFirstIndex(coordinator_.Session(), "train", patience, nullptr);
  }

  RefusingCoordinator coordinator_;
};

TEST_F(FirstIndexTest, AJobThatFormsOrRunsGivesARangeOfItsOwn) {
  for (const v1::JobState state : {v1::JOB_STATE_FORMING, v1::JOB_STATE_RUNNING}) {
    coordinator_.job.set_state(state);
    const absl::StatusOr<int> first = Find();
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_GT(*first, 0);
    EXPECT_EQ(*first % 65536, 0);
  }
}

TEST_F(FirstIndexTest, AJobThatIsNotUnderWayIsNumberedFromZero) {
  for (const v1::JobState state : {v1::JOB_STATE_QUEUED, v1::JOB_STATE_FAILED, v1::JOB_STATE_FINISHED}) {
    coordinator_.job.set_state(state);
    EXPECT_EQ(*Find(), 0) << state;
  }
}

TEST_F(FirstIndexTest, AJobThatTheCoordinatorDoesNotKnowIsNumberedFromZero) {
  coordinator_.get_job.refusals = 1;
  coordinator_.get_job.refusal = {grpc::StatusCode::NOT_FOUND, "there is no job train"};
  EXPECT_EQ(*Find(), 0);
}

TEST_F(FirstIndexTest, ALookThatIsRefusedForWantOfRoomIsMadeAgain) {
  coordinator_.get_job.refusals = 3;
  const absl::StatusOr<int> first = Find();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_GT(*first, 0);
  EXPECT_EQ(coordinator_.get_job.calls, 4);
}

TEST_F(FirstIndexTest, ALookAtACoordinatorThatRestartsIsMadeAgain) {
  coordinator_.get_job.refusals = 1;
  coordinator_.get_job.refusal = {grpc::StatusCode::UNAVAILABLE, "it is draining"};
  const absl::StatusOr<int> first = Find();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_GT(*first, 0);
}

TEST_F(FirstIndexTest, WhereTheCoordinatorNeverTellsTheLaunchIsRefused) {
  coordinator_.get_job.refusals = 1'000'000;
  for (const bool is_final : {false, true}) {
    if (is_final) coordinator_.get_job.refusal = {grpc::StatusCode::PERMISSION_DENIED, "not you"};
    const absl::Status status = Find(is_final ? absl::Minutes(10) : absl::Milliseconds(100)).status();
    EXPECT_EQ(status.code(), is_final ? absl::StatusCode::kPermissionDenied : absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(
        std::string(status.message()),
        StartsWith("it is not known whether job 'train' runs already, so its new workers cannot be numbered: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(is_final ? "not you" : "no room"));
  }
}

TEST_F(FirstIndexTest, AnInterruptedLookIsGivenUp) {
  coordinator_.get_job.refusals = 1'000'000;
  const absl::StatusOr<int> first = FindFirstIndex(coordinator_.Session(), "train", absl::Minutes(10),
                                                   [&] { return coordinator_.get_job.calls > 1; });
  EXPECT_EQ(first.status().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace farandole
