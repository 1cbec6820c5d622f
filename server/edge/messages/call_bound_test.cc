#include "server/edge/messages/call_bound.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "farandole/v1/access.pb.h"
#include "farandole/v1/admin.pb.h"
#include "farandole/v1/logged.pb.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/worker.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::google::protobuf::MethodDescriptor;
using ::testing::ElementsAre;

const MethodDescriptor& MethodOf(const std::string& name) {
  return *google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(absl::StrCat("farandole.v1.", name));
}

TEST(CallBoundTest, FewMethodsTakeLargeMessagesAndOfCallersWithARightOnly) {
  std::set<std::string> large;
  int calls = 0;
  for (const auto* file : {v1::AbortJobRequest::descriptor()->file(), v1::CreateTokenRequest::descriptor()->file(),
                           v1::GetJobRequest::descriptor()->file(), v1::JoinRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service(0)->method_count(); ++i) {
      const MethodDescriptor& method = *file->service(0)->method(i);
      const CallBound bound = BoundOf(method);
      ++calls;
      EXPECT_LE(bound.bytes, 16 << 20) << "gRPC takes no larger one of " << method.full_name();
      EXPECT_EQ(bound.right.has_value(), bound.bytes > kLargeCallBytes) << method.full_name();
      if (bound.bytes == kLargeCallBytes) continue;
      large.insert(method.name());
      EXPECT_FALSE(Has(v1::VIEWER, *bound.right)) << method.full_name();
    }
  }
  EXPECT_EQ(calls, 29);
  EXPECT_THAT(large, ElementsAre("DrainWorkers", "ReportFlight"));
}

// By the bounds that the protocol states beside its fields.
TEST(CallBoundTest, TheLargestMessagesThatAreValidFit) {
  v1::DrainWorkersRequest drain;
  for (uint32_t i = 0; i < 65536; ++i) drain.mutable_launched()->add_indices(UINT32_MAX);
  drain.set_reason(std::string(1024, 'r'));
  EXPECT_TRUE(CheckBound(MethodOf("AdminService.DrainWorkers"), drain.ByteSizeLong()).ok());
  v1::ListLoggedRequest logged;
  for (int i = 0; i < 256; ++i) logged.add_names(std::string(128, 'n'));
  EXPECT_TRUE(CheckBound(MethodOf("MonitorService.ListLogged"), logged.ByteSizeLong()).ok());
  v1::JoinRequest join;
  for (int i = 0; i < 16; ++i) join.mutable_member()->add_endpoints(std::string(256, 'e'));
  EXPECT_TRUE(CheckBound(MethodOf("WorkerService.Join"), join.ByteSizeLong()).ok());
  v1::CommitCheckpointRequest commit;
  commit.mutable_checkpoint()->set_name(std::string(256, 'n'));
  commit.mutable_checkpoint()->set_path(std::string(4096, 'p'));
  EXPECT_TRUE(CheckBound(MethodOf("WorkerService.CommitCheckpoint"), commit.ByteSizeLong()).ok());
  // As a launcher sends them (JobReporter): of 64 workers, with 320 records each.
  v1::ReportFlightRequest report;
  v1::FlightRecords* flight = report.add_flights();
  for (uint32_t i = 0; i < 320; ++i) {
    flight->add_names(std::string(112, 'n'));
    v1::FlightRecord* record = flight->add_records();
    for (const auto set : {&v1::FlightRecord::set_bytes, &v1::FlightRecord::set_batch, &v1::FlightRecord::set_age_us,
                           &v1::FlightRecord::set_started_after_us, &v1::FlightRecord::set_ended_after_us}) {
      (record->*set)(UINT64_MAX);
    }
  }
  EXPECT_TRUE(CheckBound(MethodOf("WorkerService.ReportFlight"), 64 * report.ByteSizeLong()).ok());
}

TEST(CallBoundTest, ARefusalSaysTheMethodAndBothSizes) {
  const absl::Status refused = CheckBound(MethodOf("MonitorService.GetJob"), 65537);
  EXPECT_EQ(refused, absl::InvalidArgumentError("MonitorService.GetJob: a message of 65537 bytes; 65536 is the most"));
  EXPECT_TRUE(CheckBound(MethodOf("MonitorService.GetJob"), 65536).ok());
}

}  // namespace
}  // namespace farandole
