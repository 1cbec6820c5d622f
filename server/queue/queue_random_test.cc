// Launches, ends, cancellations and changes of quotas in any order, with the queue's promises checked after each.

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/queue/queue.h"
#include "server/queue/simulated_quotas.h"

namespace farandole {
namespace {

constexpr int kSteps = 1500;

class QueueRandomTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  uint32_t Draw(uint32_t below) { return std::uniform_int_distribution<uint32_t>(0, below - 1)(random_); }

  void SetTenant(const std::string& name) {
    const bool is_alone = name == "d";
    site_.SetTenant(name, 4 + Draw(12), is_alone ? "" : "research", is_alone ? 0 : Draw(12), 1 + Draw(3), 2 + Draw(6));
  }

  std::string RandomTenant() { return std::string(1, static_cast<char>('a' + Draw(4))); }

  void Launch() {
    const std::string tenant = RandomTenant();
    const Queue::Entry entry = site_.EntryOf({tenant, absl::StrCat("j", ++launched_)}, 1 + Draw(16));
    if (!Queue::CheckEver(entry, site_.PoolOf(tenant)).ok()) return;
    site_.Launch(entry.key.Text(), entry.workers, static_cast<int32_t>(Draw(3)));
  }

  void EndOne() {
    if (site_.running().empty()) return;
    auto job = site_.running().begin();
    std::advance(job, Draw(static_cast<uint32_t>(site_.running().size())));
    site_.End(job->first.Text());
  }

  void CancelOne() {
    const std::vector<std::string> tenants = site_.queue().Tenants();
    if (tenants.empty()) return;
    const std::string& tenant = tenants[Draw(static_cast<uint32_t>(tenants.size()))];
    const auto places = site_.queue().Positions(site_.PoolOf(tenant), site_.now());
    const JobKey key = places[Draw(static_cast<uint32_t>(places.size()))].key;
    ASSERT_TRUE(site_.queue().Remove(key));
    ASSERT_EQ(site_.queue().Find(key), nullptr);
    reserved_.erase(key);
  }

  // Notes the launches that have reserved room now, before any is started.
  void NoteReserved() {
    reserved_.clear();
    for (const std::string& tenant : site_.queue().Tenants()) {
      const Pool pool = site_.PoolOf(tenant);
      for (const Queue::Position& place : site_.queue().Positions(pool, site_.now())) {
        const Queue::Entry& entry = *site_.queue().Find(place.key);
        const bool may_ever = Queue::CheckEver(entry, pool).ok();
        if (may_ever && entry.first_since + kReserveAfter <= site_.now()) reserved_.emplace(entry.key, entry);
      }
    }
  }

  void StartAndCheck() {
    NoteReserved();
    const auto before = site_.running();
    const std::vector<std::string> started = site_.Start();
    std::map<std::string, uint64_t> workers, jobs;
    for (const auto& [key, job] : before) {
      workers[key.tenant] += job.workers;
      ++jobs[key.tenant];
    }
    for (const std::string& text : started) {
      const JobKey key = SimulatedQuotas::KeyOf(text);
      const SimulatedQuotas::Running& job = site_.running().at(key);
      workers[key.tenant] += job.workers;
      ++jobs[key.tenant];
      const Pool pool = site_.PoolOf(key.tenant);
      const TenantRoom& room = pool.tenants.at(key.tenant);
      EXPECT_LE(jobs[key.tenant], room.max_jobs) << text;
      EXPECT_LE(workers[key.tenant], uint64_t{room.max_workers} + room.borrow) << text;
      EXPECT_LE(pool.workers, pool.max_workers) << text;
      CheckPassesNone(key, job.borrowed);
      reserved_.erase(key);
    }
    // The others wait for a reason, and none that could start was left.
    for (const std::string& tenant : site_.queue().Tenants()) {
      const Pool pool = site_.PoolOf(tenant);
      EXPECT_FALSE(site_.queue().Next(pool, site_.now()).has_value());
      const auto places = site_.queue().Positions(pool, site_.now());
      for (size_t i = 0; i < places.size(); ++i) {
        EXPECT_EQ(places[i].position, i + 1);
        EXPECT_EQ(places[i].length, places.size());
        EXPECT_NE(places[i].reason, "it is about to start") << places[i].key.Text();
      }
    }
  }

  // None starts before one of its tenant whose room is reserved, and none borrows what such a one of another tenant
  // waits for, but for one that waits longer and borrows as that one would.
  void CheckPassesNone(const JobKey& started, bool borrowed) {
    for (const auto& [key, entry] : reserved_) {
      if (key == started) continue;
      EXPECT_NE(key.tenant, started.tenant) << started.Text() << " has passed " << key.Text();
      const Pool pool = site_.PoolOf(key.tenant);
      const bool is_of_pool = pool.tenants.contains(started.tenant);
      if (!borrowed || !is_of_pool || site_.queue().Find(key) == nullptr) continue;
      const TenantRoom& room = pool.tenants.at(key.tenant);
      const uint64_t wanted = room.workers + entry.workers;
      const bool waits_for_pool = room.jobs < room.max_jobs && wanted <= uint64_t{room.max_workers} + room.borrow &&
                                  pool.workers - site_.running().at(started).workers + entry.workers > pool.max_workers;
      if (!waits_for_pool) continue;
      const auto own = reserved_.find(started);
      const bool is_longer = own != reserved_.end() && own->second.first_since <= entry.first_since;
      EXPECT_TRUE(wanted > room.max_workers && is_longer) << started.Text() << " has borrowed before " << key.Text();
    }
  }

  std::mt19937 random_{GetParam()};
  SimulatedQuotas site_;
  int launched_ = 0;
  std::map<JobKey, Queue::Entry> reserved_;
};

TEST_P(QueueRandomTest, NeverOverQuotaAndNobodyIsPassedForLong) {
  for (const char* tenant : {"a", "b", "c", "d"}) SetTenant(tenant);
  for (int step = 0; step < kSteps && !HasFailure(); ++step) {
    const uint32_t deed = Draw(100);
    if (deed < 45) Launch();
    if (deed >= 45 && deed < 80) EndOne();
    if (deed >= 80 && deed < 84) CancelOne();
    if (deed >= 84 && deed < 86) SetTenant(RandomTenant());
    site_.Pass(absl::Seconds(Draw(120)));
    StartAndCheck();
  }
  // Every waiting launch starts once the running ones end and no others come.
  for (const char* tenant : {"a", "b", "c", "d"}) site_.SetTenant(tenant, 32, "", 0, 1, 4);
  for (int round = 0; round < 10 * kSteps && !site_.queue().empty(); ++round) {
    EndOne();
    site_.Pass(absl::Seconds(10));
    StartAndCheck();
  }
  EXPECT_TRUE(site_.queue().empty()) << site_.queue().size() << " wait for ever";
}

INSTANTIATE_TEST_SUITE_P(Seeds, QueueRandomTest, ::testing::Range(0u, 40u));

}  // namespace
}  // namespace farandole
