#include "deploy/cli/access/audit_command.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "farandole/v1/access.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/audit/audit_log.h"
#include "server/coordinator_fixture.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AuditCommandTest : public CoordinatorFixture {
 protected:
  AuditCommandTest() { command_.state_dir = options_.state_dir; }

  template <typename Command>
  int Run(const Command& command) {
    std::ostringstream out, err;
    const int code = command(command_, out, err);
    printed_ = out.str();
    said_ = err.str();
    return code;
  }
  // A change, one that fails, and two denials.
  void Happen() {
    v1::CreateTenantRequest tenant;
    tenant.set_tenant("vision");
    tenant.set_idempotency_key("one");
    const std::string admin = Client().CreateTenant(tenant)->token();
    tenant.set_idempotency_key("two");
    EXPECT_FALSE(Client().CreateTenant(tenant).ok());
    EXPECT_FALSE(TestClient(coordinator_->address(), admin).CreateTenant(tenant).ok());
    EXPECT_FALSE(TestClient(coordinator_->address(), "wrong").ListJobs().ok());
    TestWorker stranger(coordinator_->address(), admin, "train", 0);
    ASSERT_TRUE(stranger.Join(1).ok());
    TestWorker other(coordinator_->address(), admin, "train", 1);
    other.Impersonate(stranger);
    other.Attach();
    EXPECT_EQ(other.End().code(), absl::StatusCode::kPermissionDenied);
  }

  AuditCommandOptions command_;
  std::string printed_, said_;
};

TEST_F(AuditCommandTest, ChangesAndDenialsAreShownWhileTheCoordinatorRunsAndAfterwards) {
  Start();
  Happen();
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(Run(&TailAudit), 0) << said_;
    EXPECT_THAT(printed_,
                AllOf(HasSubstr("AdminService.CreateTenant"), HasSubstr("tenant vision"), HasSubstr("allowed"),
                      HasSubstr("there is a tenant vision already"), HasSubstr("(admin of tenant vision)"),
                      HasSubstr("may not manage tenants"), HasSubstr("MonitorService.ListJobs"),
                      HasSubstr("WorkerService.Attach"), HasSubstr("127.0.0.1")));
    ASSERT_EQ(Run(&VerifyAudit), 0) << said_;
    EXPECT_THAT(printed_,
                AllOf(HasSubstr("changes: 3 lines are whole, up to 3 with SHA-256 "), HasSubstr("denials: ")));
    coordinator_.reset();
  }
  command_.only_changes = true;
  command_.lines = 1;
  command_.json = true;
  ASSERT_EQ(Run(&TailAudit), 0);
  EXPECT_THAT(printed_, AllOf(HasSubstr(R"("outcome":"failed")"), Not(HasSubstr("denied"))));
}

TEST_F(AuditCommandTest, LinesThatAreGoneWithTheirFilesAreCounted) {
  const std::string directory = command_.state_dir + "/audit";
  ASSERT_TRUE(std::filesystem::create_directories(command_.state_dir));
  AuditChain::Bounds bounds;
  bounds.file_bytes = 1;
  bounds.files = 2;
  {
    AuditChain chain = AuditChain::Open(directory, kChanges, bounds).value();
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(chain.Add({{"method", "m"}}).ok());
  }
  command_.only_changes = true;
  EXPECT_EQ(Run(&VerifyAudit), 0) << said_;
  EXPECT_THAT(printed_, AllOf(HasSubstr("changes: 2 lines are whole, up to 5 with SHA-256 "),
                              HasSubstr("; those before 4 are gone with their files\n")));
}

TEST_F(AuditCommandTest, TheFirstBrokenLineIsNamed) {
  Start();
  Happen();
  coordinator_.reset();
  const std::string path = ChainFile(options_.state_dir + "/audit", kChanges, 1);
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  std::string text = content.str();
  text.replace(text.find("vision"), 6, "hidden");
  std::ofstream(path) << text;
  EXPECT_EQ(Run(&VerifyAudit), 1);
  EXPECT_THAT(said_, HasSubstr("changes-000001.jsonl:2: line 1 before it was changed"));
  Start();
  Happen();
  EXPECT_EQ(Run(&VerifyAudit), 1) << "the log goes on, and stays broken there";
  command_.state_dir += "/none";
  EXPECT_EQ(Run(&TailAudit), 1);
  EXPECT_THAT(said_, HasSubstr("there is no directory"));
}

}  // namespace
}  // namespace farandole
