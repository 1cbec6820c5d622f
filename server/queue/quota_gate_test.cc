#include "server/queue/quota_gate.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

class QuotaGateTest : public ::testing::Test {
 protected:
  void SetTenant(const std::string& name, uint32_t max_jobs, uint32_t max_workers, const std::string& cohort = "",
                 uint32_t borrow = 0) {
    v1::TenantRecord tenant;
    tenant.set_name(name);
    tenant.set_max_jobs(max_jobs);
    tenant.set_max_workers(max_workers);
    tenant.set_cohort(cohort);
    tenant.set_borrow(borrow);
    ASSERT_TRUE(tenants_.Put(tenant).ok());
  }
  void End(const JobKey& key) { registry_.Update(key, v1::JobSummary()); }
  void Put(const JobKey& key, uint32_t workers) {
    Queue::Entry entry;
    entry.key = key;
    entry.workers = workers;
    entry.came = now_;
    entry.ticket = ++tickets_;
    gate_.Put(entry);
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  uint64_t tickets_ = 0;
  Tenants tenants_;
  JobRegistry registry_;
  QuotaGate gate_{&tenants_, &registry_, [this] { return now_; }};
};

TEST_F(QuotaGateTest, ARefusalNamesBothValues) {
  SetTenant("a", 2, 5);
  ASSERT_TRUE(gate_.Admit({"a", "first"}, 3).ok());
  const absl::Status refused = gate_.Admit({"a", "second"}, 3);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(), "job second: it wants 3 workers, tenant a has 3 in its other jobs, and its quota is 5");
  EXPECT_TRUE(gate_.Admit({"a", "third"}, 2).ok());
  EXPECT_EQ(gate_.Admit({"a", "fourth"}, 1).message(), "job fourth: tenant a runs 2 jobs, its quota is 2");
  EXPECT_TRUE(gate_.Admit({"b", "other"}, 4096).ok()) << "another tenant has a quota of its own";
  EXPECT_EQ(gate_.CheckEver({"a", "large"}, 6).message(),
            "job large: it wants 6 workers, and tenant a may have 5 at most: its quota is 5");
  EXPECT_TRUE(gate_.CheckEver({"a", "large"}, 5).ok());
}

TEST_F(QuotaGateTest, ACohortLendsAndAQuotaThatWasChangedCounts) {
  SetTenant("a", 9, 2, "research", 4);
  SetTenant("b", 9, 4, "research");
  ASSERT_TRUE(gate_.Admit({"a", "one"}, 6).ok());
  EXPECT_THAT(std::string(gate_.Admit({"b", "own"}, 1).message()),
              HasSubstr("6 of the 6 of cohort research are in use"));
  SetTenant("b", 9, 5, "research");
  EXPECT_TRUE(gate_.Admit({"b", "own"}, 1).ok());
}

TEST_F(QuotaGateTest, TheNextLaunchTakesItsRoomAsItLeavesTheQueue) {
  SetTenant("a", 9, 4);
  ASSERT_TRUE(gate_.Admit({"a", "now"}, 4).ok());
  Put({"a", "x"}, 3);
  Put({"a", "y"}, 3);
  EXPECT_FALSE(gate_.StartNext().has_value());
  EXPECT_EQ(gate_.TakeNoted().front().key, (JobKey{"a", "x"}));
  EXPECT_TRUE(gate_.TakeNoted().empty());
  EXPECT_EQ(gate_.Positions().at(1).key, (JobKey{"a", "y"}));
  End({"a", "now"});
  // A launch that comes now may not pass those that can start.
  EXPECT_THAT(std::string(gate_.Admit({"a", "new"}, 1).message()),
              HasSubstr("launches that wait already start before"));
  EXPECT_EQ(gate_.StartNext()->key, (JobKey{"a", "x"}));
  EXPECT_EQ(registry_.ReadUsages().at("a").workers, 3u);
  EXPECT_FALSE(gate_.StartNext().has_value());
  EXPECT_EQ(gate_.TakeNoted().front().key, (JobKey{"a", "y"}));
  EXPECT_TRUE(gate_.Admit({"a", "small"}, 1).ok()) << "it fits beside the one that waits";
  EXPECT_EQ(gate_.CountOf("a"), 1u);
  gate_.Remove({"a", "y"});
  EXPECT_EQ(gate_.size(), 0u);
}

}  // namespace
}  // namespace farandole
