#include "deploy/cli/access/quota_command.h"

#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/coordinator_fixture.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class QuotaCommandTest : public CoordinatorFixture {
 protected:
  void SetUp() override {
    Start();
    command_.source.coordinator = coordinator_->address();
    command_.source.token_file = coordinator_->token_file();
    v1::CreateTenantRequest request;
    request.set_tenant("vision");
    request.set_idempotency_key("vision");
    ASSERT_TRUE(Client().CreateTenant(request).ok());
    command_.tenant = "vision";
  }

  template <typename Command>
  int Run(const Command& command) {
    std::ostringstream out, err;
    const int code = command(command_, out, err);
    printed_ = out.str();
    said_ = err.str();
    return code;
  }

  QuotaCommandOptions command_;
  std::string printed_, said_;
};

TEST_F(QuotaCommandTest, WhatIsNotGivenStaysAsItIs) {
  command_.max_workers = 96;
  ASSERT_EQ(Run(SetQuota), 0) << said_;
  EXPECT_EQ(printed_, "tenant vision: 64 jobs, 96 workers, 1.0 GiB in the store\n");
  command_.max_workers.reset();
  command_.cohort = "research";
  command_.borrow = 32;
  command_.weight = 2;
  ASSERT_EQ(Run(SetQuota), 0) << said_;
  EXPECT_EQ(printed_,
            "tenant vision: 64 jobs, 96 workers, 1.0 GiB in the store; up to 32 more workers from cohort research; "
            "weight 2\n");
  command_.cohort.reset();
  command_.max_store_bytes = 256 << 20;
  ASSERT_EQ(Run(SetQuota), 0) << said_;
  EXPECT_THAT(printed_, HasSubstr("256.0 MiB in the store; up to 32 more"));
  ASSERT_EQ(Run(ShowQuotas), 0) << said_;
  EXPECT_THAT(printed_, MatchesRegex("TENANT.*vision +0/64 +0/96 +0 B/256.0 MiB +research +32 +2 +0 +0\n"));
  command_.json = true;
  ASSERT_EQ(Run(ShowQuotas), 0) << said_;
  EXPECT_EQ(nlohmann::json::parse(printed_)[0]["max_workers"], 96);
  EXPECT_EQ(nlohmann::json::parse(printed_)[0]["max_store_bytes"], 256 << 20);
  coordinator_.reset();
  Start();
  command_.source.coordinator = coordinator_->address();
  ASSERT_EQ(Run(ShowQuotas), 0) << said_;
  EXPECT_EQ(nlohmann::json::parse(printed_)[0]["cohort"], "research") << "it outlives the coordinator";
}

TEST_F(QuotaCommandTest, AQuotaThatCannotBeIsNamed) {
  command_.borrow = 1;
  EXPECT_EQ(Run(SetQuota), 2);
  EXPECT_THAT(said_, HasSubstr("tenant vision is to borrow up to 1 workers, and is in no cohort"));
  command_.borrow.reset();
  command_.weight = 1001;
  EXPECT_EQ(Run(SetQuota), 2);
  EXPECT_THAT(said_, HasSubstr("weight is 1001, and 1000 is the most"));
  command_.weight.reset();
  command_.cohort = "Research!";
  EXPECT_EQ(Run(SetQuota), 2);
  EXPECT_THAT(said_, HasSubstr("\"Research!\" (9 bytes) is not 1 to 64 bytes of [a-z0-9-]"));
  command_.cohort.reset();
  command_.tenant = "nobody";
  command_.max_jobs = 1;
  EXPECT_EQ(Run(SetQuota), 1);
  EXPECT_THAT(said_, HasSubstr("there is no tenant nobody"));
  EXPECT_EQ(Run(ShowQuotas), 1);
  EXPECT_THAT(said_, HasSubstr("the token may see no tenant nobody"));
}

}  // namespace
}  // namespace farandole
