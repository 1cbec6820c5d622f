// The principals that may make each call: every method of every service, and every principal. A method that is not in
// the table fails the test.

#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "farandole/v1/admin.pb.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/worker.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/testing/http_get.h"

namespace farandole {
namespace {

// The job that is asked for is "train" of tenant "team".
enum Principal {
  kNobody,
  kWrongToken,
  kOwnRun,      // a credential of the run of "train"
  kOtherRun,    // of another job of the tenant
  kForeignRun,  // of a job of another tenant
  kOwnTenant,
  kForeignTenant,
  kAdmin,
};
constexpr Principal kPrincipals[] = {kNobody,     kWrongToken, kOwnRun,        kOtherRun,
                                     kForeignRun, kOwnTenant,  kForeignTenant, kAdmin};
using Principals = std::set<Principal>;

// A call without a field for the tenant means the caller's own tenant.
const Principals kTenants = {kOwnTenant, kForeignTenant, kAdmin};
const Principals kWorkers = {kOwnRun, kOwnTenant, kForeignTenant, kAdmin};
const Principals kReaders = {kOwnRun, kOtherRun, kForeignRun, kOwnTenant, kForeignTenant, kAdmin};
const Principals kOwners = {kOwnTenant, kAdmin};
const Principals kAdmins = {kAdmin};

const std::map<std::string, Principals>& Table() {
  static const std::map<std::string, Principals> table = {
      {"WorkerService.CreateJob", kTenants},        {"WorkerService.Join", kWorkers},
      {"WorkerService.Attach", kWorkers},           {"WorkerService.BeginCheckpoint", kWorkers},
      {"WorkerService.CommitCheckpoint", kWorkers}, {"WorkerService.FindCheckpoint", kReaders},
      {"WorkerService.ReportExit", kTenants},       {"WorkerService.ListLost", kTenants},
      {"WorkerService.ReportFlight", kTenants},     {"MonitorService.ListJobs", kTenants},
      {"MonitorService.GetJob", kOwners},           {"MonitorService.ListCheckpoints", kOwners},
      {"MonitorService.Diagnose", kOwners},         {"AdminService.AbortJob", kAdmins},
      {"AdminService.DeleteJob", kOwners},          {"AdminService.DrainWorkers", kAdmins},
      {"AdminService.CreateTenant", kAdmins},
  };
  return table;
}

void SetField(google::protobuf::Message* message, const std::string& field, const std::string& value) {
  const google::protobuf::FieldDescriptor* found = message->GetDescriptor()->FindFieldByName(field);
  if (found != nullptr) message->GetReflection()->SetString(message, found, value);
}

class AccessTableTest : public CoordinatorFixture {
 protected:
  AccessTableTest() { options_.http = "127.0.0.1:0"; }

  void SetUp() override {
    Start();
    const std::string team = MakeTenant("team"), other = MakeTenant("other");
    tokens_ = {{kNobody, ""},
               {kWrongToken, "wrong"},
               {kOwnRun, CredentialFor("train", team)},
               {kOtherRun, CredentialFor("infer", team)},
               {kForeignRun, CredentialFor("far", other)},
               {kOwnTenant, team},
               {kForeignTenant, other},
               {kAdmin, coordinator_->token()}};
  }

  std::string MakeTenant(const std::string& name) const {
    v1::CreateTenantRequest request;
    request.set_tenant(name);
    request.set_idempotency_key(name);
    return Client().CreateTenant(request)->token();
  }

  std::string CredentialFor(const std::string& job, const std::string& token) const {
    v1::CreateJobRequest request;
    request.set_job(job);
    request.mutable_launch()->set_nonce(absl::StrCat("0123456789abcdef", job));
    request.mutable_launch()->set_who("a test");
    request.set_most_workers(1);
    const auto created = TestClient(coordinator_->address(), token).CreateJob(request);
    EXPECT_TRUE(created.ok()) << created.status();
    return created.ok() ? created->token() : "";
  }

  // The code of a call that names the job and says nothing else.
  grpc::StatusCode Ask(const google::protobuf::MethodDescriptor& method, const std::string& token) const {
    const std::unique_ptr<google::protobuf::Message> request(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(method.input_type())->New());
    SetField(request.get(), "job", "train");
    SetField(request.get(), "tenant", "team");
    if (auto* message = dynamic_cast<v1::WorkerMessage*>(request.get())) message->mutable_hello()->set_job("train");
    const TestClient client(coordinator_->address(), token);
    grpc::GenericStub stub(client.channel());
    grpc::ClientContext context;
    client.Prepare(&context);
    grpc::CompletionQueue queue;
    const auto call =
        stub.PrepareCall(&context, absl::StrCat("/", method.service()->full_name(), "/", method.name()), &queue);
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(nullptr);
    queue.Next(&tag, &ok);
    const grpc::Slice slice(request->SerializeAsString());
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    queue.Next(&tag, &ok);
    call->WritesDone(nullptr);
    queue.Next(&tag, &ok);
    // The status comes behind the answer, where there is one.
    grpc::ByteBuffer answer;
    call->Read(&answer, nullptr);
    queue.Next(&tag, &ok);
    grpc::Status status;
    call->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
    return status.error_code();
  }

  std::map<Principal, std::string> tokens_;
};

TEST_F(AccessTableTest, EveryMethodIsForThoseWhomTheTableNames) {
  size_t methods = 0;
  for (const google::protobuf::FileDescriptor* file :
       {v1::JoinRequest::descriptor()->file(), v1::GetJobRequest::descriptor()->file(),
        v1::AbortJobRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        const google::protobuf::MethodDescriptor& method = *file->service(i)->method(j);
        const std::string name = absl::StrCat(method.service()->name(), ".", method.name());
        const auto row = Table().find(name);
        ASSERT_NE(row, Table().end()) << name << " has no row: say who may call it";
        ++methods;
        for (const Principal principal : kPrincipals) {
          const grpc::StatusCode code = Ask(method, tokens_.at(principal));
          const bool is_denied =
              code == grpc::StatusCode::UNAUTHENTICATED || code == grpc::StatusCode::PERMISSION_DENIED;
          EXPECT_NE(is_denied, row->second.count(principal) > 0)
              << name << " by principal " << principal << ": code " << code;
          if (principal == kNobody || principal == kWrongToken) {
            EXPECT_EQ(code, grpc::StatusCode::UNAUTHENTICATED) << name;
          }
        }
      }
    }
  }
  EXPECT_EQ(methods, Table().size()) << "a row names no method";
}

// The answer is the same for all: a route that takes no heed of the token.
const Principals kAnybody(std::begin(kPrincipals), std::end(kPrincipals));

struct RouteRow {
  Principals allowed;
  // "": the route's own path.
  std::string asked = {};
};

const std::map<std::string, RouteRow>& Routes() {
  static const std::map<std::string, RouteRow> routes = {
      {"GET /api/v1/jobs", {kTenants}},
      {"GET /api/v1/jobs/*", {kOwners, "/api/v1/jobs/train?tenant=team"}},
      {"GET /metrics", {kAdmins}},
      {"GET /healthz", {kAnybody}},
      {"GET /", {kTenants}},
      {"GET /login", {kAnybody}},
      {"POST /login", {kAnybody}},
      {"POST /logout", {kAnybody}},
      {"GET /api/v1/events", {kTenants}},
      {"GET /assets/*", {kAnybody}},
  };
  return routes;
}

TEST_F(AccessTableTest, EveryRouteIsForThoseWhomTheTableNames) {
  const auto worker = Train("train", 1, tokens_.at(kOwnRun));
  std::set<std::string> asked;
  for (const std::string& route : coordinator_->http_routes()) {
    // The addresses of the page's files have hashes in them.
    const std::string named = absl::StartsWith(route, "GET /assets/") ? "GET /assets/*" : route;
    asked.insert(named);
    const auto row = Routes().find(named);
    ASSERT_NE(row, Routes().end()) << route << " has no row: say who may ask it";
    const size_t space = route.find(' ');
    const std::string path = row->second.asked.empty() ? route.substr(space + 1) : row->second.asked;
    std::set<unsigned> seen;
    for (const Principal principal : kPrincipals) {
      const auto answer = HttpAsk(route.substr(0, space), coordinator_->http_address(), path, tokens_.at(principal));
      seen.insert(answer.result_int());
      if (row->second.allowed == kAnybody) continue;
      EXPECT_EQ(answer.result_int() == 200, row->second.allowed.count(principal) > 0)
          << route << " by principal " << principal << ": " << answer.result_int();
    }
    if (row->second.allowed == kAnybody) {
      EXPECT_EQ(seen.size(), 1u) << route << " looks at the token";
    }
  }
  EXPECT_EQ(asked.size(), Routes().size()) << "a row names no route";
}

}  // namespace
}  // namespace farandole
