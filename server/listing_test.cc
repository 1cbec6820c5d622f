// Lists in pages, and what is taken out of them, from outside: real gRPC over loopback, a real database.
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "farandole/v1/store.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/diagnosis/roll_up_history.h"
#include "server/store/offline_reader.h"
#include "server/store/rocksdb_store.h"
#include "server/store/store_wait.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ListingTest : public CoordinatorFixture {
 protected:
  void SetUp() override { Start(); }

  // A job of one worker, which has left.
  void End(const std::string& job) { Leave(Train(job, 1)); }

  v1::ListJobsResponse Jobs(uint32_t size, const std::string& token) {
    v1::ListJobsRequest request;
    request.set_page_size(size);
    request.set_page_token(token);
    const auto page = Client().ListJobs(request);
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? *page : v1::ListJobsResponse();
  }
  v1::ListCheckpointsResponse Checkpoints(uint32_t size, const std::string& token) {
    v1::ListCheckpointsRequest request;
    request.set_job("train");
    request.set_page_size(size);
    request.set_page_token(token);
    const auto page = Client().ListCheckpoints(request);
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? *page : v1::ListCheckpointsResponse();
  }
  absl::StatusOr<v1::DeleteCheckpointResponse> Delete(int64_t step, const std::string& key) {
    v1::DeleteCheckpointRequest request;
    request.set_job("train");
    request.set_name("checkpoint");
    request.set_step(step);
    request.set_idempotency_key(key);
    return Client().DeleteCheckpoint(request);
  }
};

std::vector<std::string> NamesOf(const v1::ListJobsResponse& page) {
  std::vector<std::string> names;
  for (const v1::JobSummary& job : page.jobs()) names.push_back(job.job());
  return names;
}

std::vector<int64_t> StepsOf(const v1::ListCheckpointsResponse& page) {
  std::vector<int64_t> steps;
  for (const v1::Checkpoint& checkpoint : page.checkpoints()) steps.push_back(checkpoint.step());
  return steps;
}

TEST_F(ListingTest, JobsAreWalkedInPagesWhileSomeAppearAndVanish) {
  for (const char* job : {"one", "two", "three", "four", "five", "six"}) End(job);
  const v1::ListJobsResponse first = Jobs(2, "");
  EXPECT_THAT(NamesOf(first), ElementsAre("six", "five"));
  // The last one of the page vanishes, and one that is to come.
  ASSERT_TRUE(Client().DeleteJob("five", "", "a").ok());
  ASSERT_TRUE(Client().DeleteJob("three", "", "b").ok());
  End("seven");
  const v1::ListJobsResponse second = Jobs(2, first.next_page_token());
  EXPECT_THAT(NamesOf(second), ElementsAre("four", "two"));
  // A page token outlives the coordinator.
  coordinator_.reset();
  Start();
  const v1::ListJobsResponse third = Jobs(2, second.next_page_token());
  EXPECT_THAT(NamesOf(third), ElementsAre("one"));
  EXPECT_EQ(third.next_page_token(), "");
  EXPECT_THAT(NamesOf(Jobs(0, "")), ElementsAre("seven", "six", "four", "two", "one"));
}

TEST_F(ListingTest, CheckpointsAreWalkedInPagesWhileSomeAppearAndVanish) {
  const auto workers = Train("train", 1);
  for (int64_t step = 1; step <= 6; ++step) WriteCheckpoint(workers[0].get(), "train", step);
  const v1::ListCheckpointsResponse first = Checkpoints(2, "");
  EXPECT_THAT(StepsOf(first), ElementsAre(1, 2));
  for (const int64_t step : {2, 3}) ASSERT_TRUE(Delete(step, absl::StrCat("delete ", step)).ok());
  WriteCheckpoint(workers[0].get(), "train", 7);
  const v1::ListCheckpointsResponse second = Checkpoints(2, first.next_page_token());
  EXPECT_THAT(StepsOf(second), ElementsAre(4, 5));
  const v1::ListCheckpointsResponse third = Checkpoints(2, second.next_page_token());
  EXPECT_THAT(StepsOf(third), ElementsAre(6, 7));
  EXPECT_EQ(third.next_page_token(), "");
}

TEST_F(ListingTest, PagesOfTokensHaveEachOnceWhateverTheTenantsAreCalled) {
  // By the codes of their characters "-" comes before "/" and "0".
  for (const char* tenant : {"team", "team-a", "team0"}) {
    TestClient admin = ClientOf(MakeTenant(tenant));
    for (int i = 0; i < 2; ++i) {
      v1::CreateTokenRequest create;
      create.set_role(v1::VIEWER);
      create.set_idempotency_key(absl::StrCat(i));
      ASSERT_TRUE(admin.CreateToken(create).ok());
    }
  }
  for (const uint32_t size : {1u, 2u, 3u, 4u, 9u, 10u}) {
    std::vector<std::string> tenants;
    std::set<std::string> ids;
    v1::ListTokensRequest request;
    request.set_page_size(size);
    do {
      const auto page = Client().ListTokens(request);
      ASSERT_TRUE(page.ok()) << page.status();
      for (const v1::Token& token : page->tokens()) {
        tenants.push_back(token.tenant());
        ids.insert(token.id());
      }
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty() && tenants.size() < 20);
    EXPECT_THAT(tenants,
                ElementsAre("default", "team", "team", "team", "team-a", "team-a", "team-a", "team0", "team0", "team0"))
        << size;
    EXPECT_EQ(ids.size(), 10u) << size;
  }
}

TEST_F(ListingTest, ATokenOfAnotherListIsRefused) {
  End("train");
  End("other");
  const std::string of_jobs = Jobs(1, "").next_page_token();
  ASSERT_NE(of_jobs, "");
  v1::ListCheckpointsRequest checkpoints;
  checkpoints.set_job("train");
  checkpoints.set_page_token(of_jobs);
  v1::ListTokensRequest tokens;
  tokens.set_page_token(of_jobs);
  v1::ListJobsRequest jobs;
  jobs.set_page_token("rubbish");
  for (const absl::Status& status : {Client().ListCheckpoints(checkpoints).status(),
                                     Client().ListTokens(tokens).status(), Client().ListJobs(jobs).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("page_token"));
  }
}

TEST_F(ListingTest, ADeletedCheckpointIsFoundNoMoreAndItsFileIsNamed) {
  const auto workers = Train("train", 1);
  WriteCheckpoint(workers[0].get(), "train", 1);
  WriteCheckpoint(workers[0].get(), "train", 2);
  const auto deleted = Delete(2, "k");
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->checkpoint().path(), "/data/checkpoint.t2.bin");
  EXPECT_EQ(Delete(2, "k")->checkpoint().path(), "/data/checkpoint.t2.bin") << "as the first call was answered";
  EXPECT_EQ(Delete(2, "another").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Delete(1, "k").status().code(), absl::StatusCode::kInvalidArgument) << "the key is another request's";
  coordinator_.reset();
  Start();
  v1::FindCheckpointRequest find;
  find.set_job("train");
  find.set_step(-1);
  EXPECT_EQ(Client().FindCheckpoint(find)->checkpoint().step(), 1);
  std::ifstream audit(options_.state_dir + "/audit/changes-000001.jsonl");
  const std::string lines(std::istreambuf_iterator<char>(audit), {});
  EXPECT_THAT(lines, HasSubstr("\"AdminService.DeleteCheckpoint\",\"target\":\"checkpoint checkpoint at step 2 of job "
                               "default/train\""));
}

TEST_F(ListingTest, TheSweepForgetsTheAnswersToRepeatedCalls) {
  coordinator_.reset();
  options_.retention.answers = absl::ZeroDuration();
  options_.sweep_interval = absl::Milliseconds(20);
  Start();
  const auto workers = Train("train", 1);
  WriteCheckpoint(workers[0].get(), "train", 1);
  ASSERT_TRUE(Delete(1, "k").ok());
  // As long as the answer is kept the call gives it again; then it is carried out anew.
  absl::Status again;
  while ((again = Delete(1, "k").status()).ok()) {
  }
  EXPECT_EQ(again.code(), absl::StatusCode::kNotFound);
}

TEST_F(ListingTest, ATenantThatFillsTheStoreIsRefusedMoreWithBothNumbersAndItsJobsGoOn) {
  coordinator_.reset();
  options_.sweep_interval = absl::Milliseconds(20);
  Start();
  v1::CreateTenantRequest create;
  create.set_tenant("small");
  create.set_max_store_bytes(50'000);
  create.set_idempotency_key("small");
  const std::string token = Client().CreateTenant(create)->token();
  const auto workers = Train("train", 1, token);
  absl::Status refused;
  for (int64_t step = 0; step < 5000 && refused.ok(); ++step) refused = TryCheckpoint(workers[0].get(), "train", step);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("a checkpoint of job train: tenant small has "));
  EXPECT_THAT(refused.message(), HasSubstr("its quota is 50000; delete ended jobs"));
  // RocksDB estimates what lies in memory by samples, so that the next look may find some percent less.
  v1::SetQuotaRequest lower;
  lower.set_tenant("small");
  lower.set_max_store_bytes(25'000);
  lower.set_idempotency_key("lower");
  ASSERT_TRUE(Client().SetQuota(lower).ok());
  const auto late = Worker("late", 0, token);
  EXPECT_EQ(late->Join(1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Client().GetJob("late", "small").status().code(), absl::StatusCode::kNotFound);
  AgreeOn("grad/0", workers);
  const auto others = Train("train", 1);
  WriteCheckpoint(others[0].get(), "train", 1);
  const auto tenants = Client().ListTenants(v1::ListTenantsRequest());
  ASSERT_EQ(tenants->tenants_size(), 2);
  EXPECT_EQ(tenants->tenants(1).max_store_bytes(), 25'000u);
  EXPECT_GE(tenants->tenants(1).store_bytes(), 25'000u);
  lower.set_max_store_bytes(1 << 20);
  lower.set_idempotency_key("higher");
  ASSERT_TRUE(Client().SetQuota(lower).ok());
  const absl::Status room = TryCheckpoint(workers[0].get(), "train", 5000);
  EXPECT_TRUE(room.ok()) << "a larger quota has room at once: " << room;
  Leave(workers);
}

// Rows of a job of the tenant that has ended as the `number`th, with a tenth of a MiB of measurements.
void WriteMeasuredJob(Store* store, const std::string& tenant, int number) {
  const std::string owner = absl::StrCat(tenant, "/job-", absl::Dec(number, absl::kZeroPad2));
  const uint64_t revision = AcquireAndWait(store, owner).value();
  v1::JobRecord record;
  record.set_state(v1::JOB_STATE_FINISHED);
  record.set_created_unix_ms(absl::ToUnixMillis(absl::Now()) - 100'000);
  record.set_ended_unix_ms(record.created_unix_ms() + number);
  record.mutable_epoch()->set_number(1);
  v1::JobSummary summary;
  summary.set_tenant(tenant);
  summary.set_job(owner.substr(tenant.size() + 1));
  summary.set_state(record.state());
  summary.set_created_unix_ms(record.created_unix_ms());
  summary.set_ended_unix_ms(record.ended_unix_ms());
  StoreBatch first{{},
                   {{absl::StrCat("job/", owner), record.SerializeAsString()},
                    {absl::StrCat("summary/", owner), summary.SerializeAsString()}}};
  ASSERT_TRUE(CommitAndWait(store, owner, revision, std::move(first)).ok());
  RollUpHistory history(absl::StrCat("measured/", owner, "/"), nullptr);
  history.Begin(1, {}, absl::Now(), absl::ZeroDuration());
  // The store compresses what is alike.
  std::mt19937 random(static_cast<uint32_t>(number));
  const auto any = [&random] { return static_cast<uint16_t>(random()); };
  std::vector<RollUp> ranks(16);
  for (int64_t tens = 0; tens < 360; ++tens) {
    for (RollUp& rank : ranks) rank = {100, any(), any(), any(), any(), any(), any()};
    history.Add(history.NumberAt(absl::Now() + tens * absl::Seconds(10)), ranks);
  }
  history.Hasten();
  while (history.IsDue()) {
    StoreBatch batch;
    history.Save(&batch);
    ASSERT_TRUE(CommitAndWait(store, owner, revision, std::move(batch)).ok());
  }
}

TEST_F(ListingTest, MeasurementsOfTheOldestJobsGoWhereATenantHasTooManyAndTheJobsStay) {
  v1::CreateTenantRequest create;
  create.set_tenant("small");
  create.set_max_store_bytes(4 << 20);
  create.set_idempotency_key("small");
  const std::string token = Client().CreateTenant(create)->token();
  coordinator_.reset();
  constexpr int kJobs = 30;
  {
    const std::unique_ptr<Store> store = OpenRocksdbStore(options_.state_dir + "/store").value();
    for (int number = 0; number < kJobs; ++number) WriteMeasuredJob(store.get(), "small", number);
    // Another tenant's are none of its.
    for (int number = 0; number < kJobs; ++number) WriteMeasuredJob(store.get(), "default", number);
  }
  options_.sweep_interval = absl::Milliseconds(20);
  Start();
  const auto measured = [this](const std::string& tenant) {
    std::set<std::string> jobs;
    const auto rows = ReadRowsOffline(options_.state_dir + "/store", absl::StrCat("measured/", tenant, "/"));
    EXPECT_TRUE(rows.ok()) << rows.status();
    for (const StoreRow& row : *rows) jobs.insert(std::vector<std::string>(absl::StrSplit(row.key, '/'))[2]);
    return jobs;
  };
  while (measured("small").size() > 12) {
  }
  // Many sweeps later there are no less, although the store counts what was deleted for a while.
  for (int look = 0; look < 300; ++look) EXPECT_TRUE(Client().GetJob("job-29", "small").ok());
  const std::set<std::string> left = measured("small");
  EXPECT_GE(left.size(), 6u) << "a quarter of 4 MiB has room for nine";
  EXPECT_THAT(left, Contains("job-29"));
  EXPECT_THAT(left, Not(Contains("job-00")));
  EXPECT_EQ(measured("default").size(), static_cast<size_t>(kJobs));
  v1::ListJobsRequest all;
  all.set_page_size(100);
  EXPECT_EQ(ClientOf(token).ListJobs(all)->jobs_size(), kJobs);
}

}  // namespace
}  // namespace farandole
