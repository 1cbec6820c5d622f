#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "farandole/v1/store.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/registry/job_registry.h"
#include "server/registry/tenants.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

v1::TenantRecord TenantWithToken(const std::string& name, const std::string& token) {
  v1::TenantRecord record;
  record.set_name(name);
  record.add_token_sha256(Sha256(token));
  return record;
}

v1::JobSummary Job(const std::string& tenant, const std::string& job, v1::JobState state, int64_t created) {
  v1::JobSummary summary;
  summary.set_tenant(tenant);
  summary.set_job(job);
  summary.set_state(state);
  summary.set_wanted_size(2);
  summary.set_created_unix_ms(created);
  return summary;
}

TEST(TenantsTest, ATokenBelongsToTheTenantThatHasItsHash) {
  Tenants tenants;
  ASSERT_TRUE(tenants.Put(TenantWithToken("a", "token-a")).ok());
  v1::TenantRecord b = TenantWithToken("b", "token-b");
  b.set_admin(true);
  ASSERT_TRUE(tenants.Put(b).ok());
  EXPECT_EQ(tenants.Authenticate("token-a")->tenant, "a");
  EXPECT_FALSE(tenants.Authenticate("token-a")->admin);
  EXPECT_TRUE(tenants.Authenticate("token-b")->admin);
  for (const char* wrong : {"", "token-", "token-aa"}) {
    EXPECT_EQ(tenants.Authenticate(wrong).status().code(), absl::StatusCode::kUnauthenticated);
  }
}

TEST(TenantsTest, AReplacedRecordRevokesItsOldToken) {
  Tenants tenants;
  ASSERT_TRUE(tenants.Put(TenantWithToken("a", "old")).ok());
  ASSERT_TRUE(tenants.Put(TenantWithToken("a", "new")).ok());
  EXPECT_FALSE(tenants.Authenticate("old").ok());
  EXPECT_TRUE(tenants.Authenticate("new").ok());
}

TEST(TenantsTest, ACredentialIsOfOneRunAndCannotBeChanged) {
  Tenants tenants;
  ASSERT_TRUE(tenants.Put(TenantWithToken("a", "token-a")).ok());
  tenants.SetRunKey("key");
  v1::Launch launch;
  launch.set_nonce("n");
  launch.set_who("alice");
  launch.set_since_unix_ms(5);
  const std::string credential = tenants.CredentialOf({"a", "train"}, launch);
  const auto access = tenants.Authenticate(credential);
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_TRUE(access->IsOfRun());
  EXPECT_EQ(access->tenant, "a");
  EXPECT_EQ(access->job, "train");
  EXPECT_EQ(access->launch.nonce(), "n");
  EXPECT_FALSE(access->admin);
  for (size_t i = 0; i < credential.size(); ++i) {
    std::string changed = credential;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(tenants.Authenticate(changed).ok()) << i;
  }
  EXPECT_FALSE(tenants.Authenticate(tenants.CredentialOf({"gone", "train"}, launch)).ok());
  tenants.SetRunKey("another");
  EXPECT_FALSE(tenants.Authenticate(credential).ok());
}

TEST(TenantsTest, NamesAreBoundedAndTheTableToo) {
  EXPECT_TRUE(CheckTenantName("team-7").ok());
  for (const std::string& bad : {std::string(), std::string("A"), std::string("a/b"), std::string(65, 'a')}) {
    EXPECT_EQ(CheckTenantName(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  Tenants tenants;
  for (size_t i = 0; i < kMaxTenants; ++i) ASSERT_TRUE(tenants.Put(TenantWithToken(absl::StrCat("t", i), "x")).ok());
  EXPECT_EQ(tenants.Put(TenantWithToken("one-more", "x")).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(tenants.Put(TenantWithToken("t0", "y")).ok());
}

TEST(JobDirectoryTest, ListsTheNewestFirstAndOneTenantsOwn) {
  const Tenants tenants;
  JobRegistry registry(&tenants);
  registry.Update({"a", "old"}, Job("a", "old", v1::JOB_STATE_FINISHED, 1));
  registry.Update({"a", "new"}, Job("a", "new", v1::JOB_STATE_RUNNING, 3));
  registry.Update({"b", "mid"}, Job("b", "mid", v1::JOB_STATE_FAILED, 2));
  const auto names = [&](const std::string& tenant) {
    std::vector<std::string> found;
    for (const v1::JobSummary& job : registry.List(tenant)) found.push_back(job.job());
    return found;
  };
  EXPECT_THAT(names(""), ::testing::ElementsAre("new", "mid", "old"));
  EXPECT_THAT(names("a"), ::testing::ElementsAre("new", "old"));
}

std::vector<std::string> NamesOf(const std::vector<EndedJob>& jobs) {
  std::vector<std::string> names;
  for (const EndedJob& job : jobs) names.push_back(absl::StrCat(job.key.Text(), "@", job.ended_unix_ms));
  return names;
}

TEST(JobDirectoryTest, EndedJobsAreOverdueByTheirAgeAndTheirNumber) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  const Tenants tenants;
  JobRegistry registry(&tenants);
  const auto end = [&](const std::string& tenant, const std::string& job, int64_t at) {
    v1::JobSummary summary = Job(tenant, job, v1::JOB_STATE_FINISHED, 1);
    summary.set_ended_unix_ms(at);
    registry.Update({tenant, job}, summary);
  };
  for (int i = 0; i < 4; ++i) end("a", absl::StrCat("j", i), 1000 + i);
  end("b", "old", 500);
  end("b", "new", 2000);
  registry.Update({"b", "runs"}, Job("b", "runs", v1::JOB_STATE_RUNNING, 1));
  const auto overdue = [&](int64_t oldest, size_t jobs, size_t most = 100) {
    const absl::Time now = absl::FromUnixMillis(oldest) + absl::Hours(1);
    return NamesOf(registry.Overdue({absl::Hours(1), jobs}, now, most));
  };
  EXPECT_THAT(overdue(500, 4), IsEmpty());
  EXPECT_THAT(overdue(501, 4), ElementsAre("b/old@500"));
  EXPECT_THAT(overdue(1002, 4), ElementsAre("a/j0@1000", "b/old@500", "a/j1@1001"));
  EXPECT_THAT(overdue(0, 1), ElementsAre("a/j0@1000", "b/old@500", "a/j1@1001", "a/j2@1002"));
  EXPECT_THAT(overdue(0, 0, 3), ElementsAre("a/j0@1000", "b/old@500", "a/j1@1001")) << "no tenant waits for another";
  registry.Update({"a", "j0"}, Job("a", "j0", v1::JOB_STATE_RUNNING, 1));
  registry.Forget({"b", "old"});
  EXPECT_THAT(overdue(0, 1), ElementsAre("a/j1@1001", "a/j2@1002"));
}

TEST(JobDirectoryTest, RoomIsHeldUntilTheJobIsOrIsNot) {
  Tenants tenants;
  v1::TenantRecord tenant;
  tenant.set_name("a");
  tenant.set_max_jobs(1);
  ASSERT_TRUE(tenants.Put(tenant).ok());
  JobRegistry registry(&tenants);
  ASSERT_TRUE(registry.Admit({"a", "first"}, 2).ok());
  EXPECT_TRUE(registry.List("a").empty()) << "room is no job yet";
  EXPECT_EQ(registry.Admit({"a", "second"}, 2).code(), absl::StatusCode::kResourceExhausted);
  registry.Update({"a", "first"}, v1::JobSummary());
  EXPECT_FALSE(registry.Knows({"a", "first"}));
  EXPECT_TRUE(registry.Admit({"a", "second"}, 2).ok());
  EXPECT_TRUE(registry.Admit({"a", "second"}, 2).ok()) << "an active job has its room already";
}

TEST(JobDirectoryTest, WorkersCountAsManyAsTheirJobsWant) {
  Tenants tenants;
  v1::TenantRecord tenant;
  tenant.set_name("a");
  tenant.set_max_workers(5);
  ASSERT_TRUE(tenants.Put(tenant).ok());
  JobRegistry registry(&tenants);
  ASSERT_TRUE(registry.Admit({"a", "first"}, 3).ok());
  const absl::Status refused = registry.Admit({"a", "second"}, 3);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("it wants 3 workers, tenant a has 3 in its other jobs, and its quota is 5"));
  EXPECT_TRUE(registry.Admit({"a", "third"}, 2).ok());
  EXPECT_TRUE(registry.Admit({"b", "other"}, 4096).ok()) << "another tenant has a quota of its own";
}

TEST(JobDirectoryTest, ARowThatIsNoRecordIsNamed) {
  const Tenants tenants;
  JobRegistry registry(&tenants);
  const std::vector<StoreRow> rows = {{"summary/a/x", "\xff\xff"}};
  const absl::Status status = registry.Load(rows);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("summary/a/x"));
}

}  // namespace
}  // namespace farandole
