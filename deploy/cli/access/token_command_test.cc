#include "deploy/cli/access/token_command.h"

#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/coordinator_fixture.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TokenCommandTest : public CoordinatorFixture {
 protected:
  void SetUp() override {
    Start();
    command_.source.coordinator = coordinator_->address();
    command_.source.token_file = coordinator_->token_file();
    command_.overlap = "0s";
  }

  // Runs a command, and keeps what it has printed and said.
  template <typename Command>
  int Run(const Command& command) {
    std::ostringstream out, err;
    const int code = command(out, err);
    printed_ = out.str();
    said_ = err.str();
    return code;
  }
  int Create() {
    return Run([this](auto& out, auto& err) { return CreateToken(command_, out, err); });
  }
  int List() {
    return Run([this](auto& out, auto& err) { return ListTokens(command_, absl::Now(), out, err); });
  }
  bool IsKnown(const std::string& token) const { return TestClient(coordinator_->address(), token).ListJobs().ok(); }

  TokenCommandOptions command_;
  std::string printed_, said_;
};

TEST_F(TokenCommandTest, ATenantGetsTokensThatAreListedRotatedAndRevoked) {
  command_.tenant = "vision";
  command_.out_file = options_.state_dir + "/vision";
  ASSERT_EQ(Run([this](auto& out, auto& err) { return CreateTenant(command_, out, err); }), 0) << said_;
  EXPECT_EQ(printed_, "");
  EXPECT_THAT(said_, HasSubstr("admin of tenant vision, does not expire"));
  struct stat facts = {};
  ASSERT_EQ(stat(command_.out_file.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_EQ(Create(), 2) << "no role";

  command_.role = "launcher";
  EXPECT_EQ(Create(), 1) << "the file is there";
  EXPECT_THAT(said_, HasSubstr("is there already"));
  command_.out_file.clear();
  command_.label = "nightly runs";
  command_.lifetime = "1d12h";
  ASSERT_EQ(Create(), 0) << said_;
  const std::string token = printed_.substr(0, printed_.find('\n'));
  EXPECT_TRUE(IsKnown(token));
  ASSERT_EQ(List(), 0) << said_;
  EXPECT_THAT(printed_, AllOf(StartsWith("ID "), HasSubstr("launcher"), HasSubstr("nightly runs"), HasSubstr("s ago"),
                              Not(HasSubstr("start token"))));

  command_.json = true;
  ASSERT_EQ(List(), 0);
  const auto listed = nlohmann::json::parse(printed_);
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[1]["role"], "launcher");
  EXPECT_EQ(listed[1]["expires_unix_ms"].get<int64_t>() - listed[1]["created_unix_ms"].get<int64_t>(), 129'600'000);
  command_.id = listed[1]["id"];
  ASSERT_EQ(Run([this](auto& out, auto& err) { return RotateToken(command_, out, err); }), 0) << said_;
  const std::string rotated = nlohmann::json::parse(printed_)["token"];
  EXPECT_TRUE(IsKnown(rotated));
  EXPECT_FALSE(IsKnown(token));
  command_.json = false;
  ASSERT_EQ(Run([this](auto& out, auto& err) { return RevokeToken(command_, absl::Now(), out, err); }), 0) << said_;
  EXPECT_EQ(printed_, "token " + command_.id + " is revoked; 1 token has ended by it\n");
  EXPECT_FALSE(IsKnown(rotated));
  ASSERT_EQ(List(), 0);
  EXPECT_THAT(printed_, HasSubstr("revoked 20"));
  ASSERT_EQ(Run([this](auto& out, auto& err) { return ListTenants(command_, absl::Now(), out, err); }), 0) << said_;
  EXPECT_THAT(printed_, AllOf(HasSubstr("vision"), HasSubstr("0/64"), HasSubstr("0/4096")));
}

TEST_F(TokenCommandTest, AWrongCommandLineIsNamed) {
  command_.role = "king";
  EXPECT_EQ(Create(), 2);
  EXPECT_THAT(said_,
              HasSubstr("--role king is none of viewer, launcher, operator, admin, auditor, cluster-operator, root"));
  command_.role = "viewer";
  command_.lifetime = "soon";
  EXPECT_EQ(Create(), 2);
  EXPECT_THAT(said_, HasSubstr("--ttl soon is no span of time"));
  for (const char* wrong : {"", "d", "3", "-1h", "1dx"}) EXPECT_FALSE(ParseSpan("--ttl", wrong).ok()) << wrong;
  EXPECT_EQ(*ParseSpan("--ttl", "2d"), absl::Hours(48));
  command_.source = CoordinatorSource();
  command_.source.state_dir = options_.state_dir + "/none";
  command_.lifetime.clear();
  EXPECT_EQ(Create(), 1);
  EXPECT_THAT(said_, HasSubstr("no coordinator works in"));
}

}  // namespace
}  // namespace farandole
