#include "deploy/cli/coordinators/coordinator_session.h"

#include "deploy/cli/coordinators/refusing_coordinator.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(CoordinatorSessionTest, AListGoesOnWhereAPageWasRefusedForWantOfRoom) {
  for (const int served : {0, 1}) {
    RefusingCoordinator coordinator;
    coordinator.list_jobs.served = served;
    coordinator.list_jobs.refusals = 1;
    const absl::StatusOr<v1::ListJobsResponse> listed = coordinator.Session().ListJobs();
    ASSERT_TRUE(listed.ok()) << listed.status();
    EXPECT_EQ(listed->jobs_size(), 2);
    EXPECT_EQ(coordinator.list_jobs.calls, 3);
  }
}

TEST(CoordinatorSessionTest, ALookThatIsRefusedForWantOfRoomIsMadeAgain) {
  RefusingCoordinator coordinator;
  coordinator.get_job.refusals = 1;
  EXPECT_TRUE(coordinator.Session().GetJob("", "train").ok());
  EXPECT_EQ(coordinator.get_job.calls, 2);
}

TEST(CoordinatorSessionTest, OtherErrorsAreToldAtOnce) {
  for (const grpc::Status& refusal :
       {grpc::Status(grpc::StatusCode::UNAVAILABLE, "it is draining"),
        grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "a quota"),
        grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job"), RefusingCoordinator::Full(absl::Seconds(30))}) {
    RefusingCoordinator coordinator;
    coordinator.get_job.refusals = 1;
    coordinator.get_job.refusal = refusal;
    EXPECT_FALSE(coordinator.Session().GetJob("", "train").ok()) << refusal.error_message();
    EXPECT_EQ(coordinator.get_job.calls, 1) << refusal.error_message();
  }
}

}  // namespace
}  // namespace farandole
