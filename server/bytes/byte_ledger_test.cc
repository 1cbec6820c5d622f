#include "server/bytes/byte_ledger.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/retry/retry_delay.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

constexpr ByteLimits kLimits = {/*tenant_queued=*/1000, /*tenant_kept=*/4000, /*queued=*/3000, /*kept=*/8000};

// Charges by the way of a running job; false: refused.
bool Take(const std::shared_ptr<ByteAccount>& account, int64_t bytes, ByteCharge* charge,
          ByteClass who = ByteClass::kJob, ByteKind kind = ByteKind::kEvents) {
  return account->Take(kind, bytes, who, charge).ok();
}

TEST(ByteLedgerTest, AChargeCountsInAllAccountsAboveUntilItGoes) {
  ByteLedger ledger(kLimits);
  const auto stream = ledger.Stream("vision", "train");
  {
    ByteCharge charge;
    ASSERT_TRUE(Take(stream, 100, &charge));
    EXPECT_EQ(charge.bytes(), 100);
    const std::vector<const ByteAccount*> accounts = {stream.get(), ledger.Job("vision", "train").get(),
                                                      ledger.Tenant("vision").get(), &ledger.process()};
    for (const ByteAccount* account : accounts) {
      EXPECT_EQ(account->held(BytePool::kQueued), 100) << account->name();
      EXPECT_EQ(account->held(ByteKind::kEvents), 100) << account->name();
      EXPECT_EQ(account->held(BytePool::kKept), 0) << account->name();
    }
    const ByteCharge moved = std::move(charge);
    EXPECT_EQ(ledger.process().held(BytePool::kQueued), 100);
  }
  EXPECT_EQ(ledger.process().held(BytePool::kQueued), 0);
}

TEST(ByteLedgerTest, EachLevelHasItsLimit) {
  ByteLedger ledger(kLimits);
  std::vector<ByteCharge> charges(8);
  EXPECT_TRUE(Take(ledger.Stream("vision", "a"), 250, &charges[0]));
  EXPECT_FALSE(Take(ledger.Stream("vision", "a"), 251, &charges[1])) << "a quarter";
  EXPECT_TRUE(Take(ledger.Stream("vision", "a"), 250, &charges[1]));
  EXPECT_FALSE(Take(ledger.Stream("vision", "a"), 1, &charges[2])) << "half is the job's";
  EXPECT_TRUE(Take(ledger.Job("vision", "b"), 500, &charges[2]));
  EXPECT_TRUE(Take(ledger.Job("vision", "c"), 333, &charges[3])) << "the tenant has all that it may; a third is c's";
  EXPECT_FALSE(Take(ledger.Job("vision", "c"), 1, &charges[4])) << "and no more";
  EXPECT_TRUE(Take(ledger.Job("speech", "a"), 500, &charges[4])) << "another tenant does not feel it";
  EXPECT_EQ(ledger.Tenant("vision")->held(BytePool::kQueued), 1333) << "a refusal leaves nothing";
  EXPECT_EQ(ledger.Tenant("vision")->sheds(ByteKind::kEvents), 3u);
  EXPECT_EQ(ledger.Tenant("speech")->sheds(ByteKind::kEvents), 0u);
  EXPECT_EQ(ledger.process().sheds(ByteKind::kEvents), 3u);
}

TEST(ByteLedgerTest, JobsThatComeOneAfterTheOtherHoldTwiceTheLimitAtMost) {
  ByteLedger ledger(kLimits);
  std::vector<ByteCharge> charges;
  for (int job = 1; job <= 64; ++job) {
    charges.emplace_back();
    Take(ledger.Job("vision", absl::StrCat(job)), 1000 / std::max(job, 2), &charges.back());
  }
  EXPECT_LE(ledger.Tenant("vision")->held(BytePool::kQueued), 2000);
  EXPECT_GT(ledger.Tenant("vision")->held(BytePool::kQueued), 1900);
  ByteCharge other;
  EXPECT_TRUE(Take(ledger.Job("speech", "a"), 500, &other)) << "another tenant does not feel it";
}

TEST(ByteLedgerTest, ARefusalSaysWhoseHowMuchTheLimitAndWhenToRetry) {
  ByteLimits limits;
  ByteLedger ledger(limits);
  const ByteCharge first = ledger.Job("vision", "train")->Add(ByteKind::kEvents, 32 << 20);
  ByteCharge charge;
  const absl::Status full = ledger.Job("vision", "train")->Take(ByteKind::kEvents, 1 << 20, ByteClass::kJob, &charge);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(),
            "job train of tenant vision has 32.0 MiB of messages on their way, and 1.0 MiB of events come; 32.0 MiB is "
            "the most; retry in 1s");
  EXPECT_EQ(RetryDelayOf(full), absl::Seconds(1));
  const absl::Status large = ledger.Job("vision", "other")->Take(ByteKind::kEvents, 40 << 20, ByteClass::kJob, &charge);
  EXPECT_EQ(large.message(), "job other of tenant vision: 40.0 MiB of events at once; 32.0 MiB is the most");
  EXPECT_EQ(RetryDelayOf(large), std::nullopt) << "it never fits";
}

TEST(ByteLedgerTest, AnAccountSaysWhatNeverFits) {
  ByteLedger ledger(kLimits);
  const auto tenant = ledger.Tenant("vision");
  const ByteCharge full = tenant->Add(ByteKind::kEvents, 1000);
  EXPECT_TRUE(tenant->CheckFits(ByteKind::kEvents, 250, ByteClass::kJob, kStreamDivisor).ok()) << "later";
  const absl::Status never = tenant->CheckFits(ByteKind::kEvents, 251, ByteClass::kJob, kStreamDivisor);
  EXPECT_EQ(never.message(), "tenant vision: 0.2 KiB of events at once; 0.2 KiB is the most");
  EXPECT_EQ(RetryDelayOf(never), std::nullopt);
  EXPECT_EQ(ledger.Tenant("vision")->sheds(ByteKind::kEvents), 0u);
}

TEST(ByteLedgerTest, ObserversAreRefusedFirstThenThoseWhoJoin) {
  ByteLedger ledger(kLimits);
  const auto tenant = ledger.Tenant("vision");
  ByteCharge charge;
  ByteCharge held = tenant->Add(ByteKind::kEvents, 500);
  EXPECT_FALSE(Take(tenant, 1, &charge, ByteClass::kObserver));
  EXPECT_TRUE(Take(tenant, 1, &charge, ByteClass::kJoin));
  held.Resize(749);
  EXPECT_FALSE(Take(tenant, 1, &charge, ByteClass::kJoin)) << "its own byte is still charged";
  EXPECT_TRUE(Take(tenant, 1, &charge, ByteClass::kJob));
  held.Resize(1000);
  EXPECT_FALSE(Take(tenant, 1, &charge, ByteClass::kJob));
  EXPECT_TRUE(Take(tenant, 2000, &charge, ByteClass::kObserver, ByteKind::kTimelines)) << "of another pool";
  EXPECT_FALSE(tenant->Take(ByteKind::kTimelines, 1, ByteClass::kObserver, &charge).ok());
  EXPECT_TRUE(Take(tenant, 1, &charge, ByteClass::kJob, ByteKind::kNames));
}

TEST(ByteLedgerTest, AFullProcessRefusesThoseWhoHaveMoreThanTheirShare) {
  ByteLedger ledger({/*tenant_queued=*/4000, /*tenant_kept=*/4000, /*queued=*/3000, /*kept=*/8000});
  const ByteCharge greedy = ledger.Tenant("greedy")->Add(ByteKind::kEvents, 3000);
  ByteCharge charge, more;
  EXPECT_FALSE(Take(ledger.Tenant("greedy"), 1, &charge));
  EXPECT_TRUE(Take(ledger.Tenant("quiet"), 1500, &charge)) << "half of the whole for each of two";
  EXPECT_FALSE(Take(ledger.Tenant("quiet"), 1, &more));
}

TEST(ByteLedgerTest, WhatIsAddedCountsBeyondTheLimit) {
  ByteLedger ledger(kLimits);
  const auto job = ledger.Job("vision", "train");
  ByteCharge added = job->Add(ByteKind::kOutgoing, 501);
  EXPECT_TRUE(job->IsOver(BytePool::kOutgoing));
  EXPECT_FALSE(ledger.Tenant("vision")->IsOver(BytePool::kOutgoing));
  added.Resize(500);
  EXPECT_FALSE(job->IsOver(BytePool::kOutgoing));
}

TEST(ByteLedgerTest, WaitersAreWokenOnceWhenHalfIsFree) {
  ByteLedger ledger(kLimits);
  const auto job = ledger.Job("vision", "train");
  ByteCharge held = job->Add(ByteKind::kEvents, 500);
  int woken = 0, woken_for_much = 0;
  const auto owner = std::make_shared<int>();
  job->AwaitRoom(BytePool::kQueued, 1, owner, [&] { ++woken; });
  job->AwaitRoom(BytePool::kQueued, 400, owner, [&] { ++woken_for_much; });
  held.Resize(251);
  EXPECT_EQ(woken, 0);
  held.Resize(250);
  EXPECT_EQ(woken, 1);
  EXPECT_EQ(woken_for_much, 0) << "there is no room for it";
  held.Resize(100);
  EXPECT_EQ(woken_for_much, 1);
  held.Resize(0);
  EXPECT_EQ(woken, 1);
  job->AwaitRoom(BytePool::kQueued, 1, owner, [&] { ++woken; });
  EXPECT_EQ(woken, 2) << "at once: there is room";
}

TEST(ByteLedgerTest, WaitersWhoseOwnersAreGoneAreForgotten) {
  ByteLedger ledger(kLimits);
  const auto job = ledger.Job("vision", "train");
  ByteCharge held = job->Add(ByteKind::kEvents, 500);
  int woken = 0;
  for (int i = 0; i < 1000; ++i) job->AwaitRoom(BytePool::kQueued, 1, std::make_shared<int>(), [&] { ++woken; });
  held.Resize(0);
  EXPECT_LE(woken, 64) << "the rest was forgotten, one time in 64";
}

TEST(ByteLedgerTest, AQuietTenantIsNotOverWhereTheProcessIs) {
  ByteLedger ledger({/*tenant_queued=*/4000, /*tenant_kept=*/4000, /*queued=*/3000, /*kept=*/8000});
  const ByteCharge greedy = ledger.Job("greedy", "train")->Add(ByteKind::kOutgoing, 2000);
  const ByteCharge more = ledger.Job("greedy", "other")->Add(ByteKind::kOutgoing, 1500);
  const auto quiet = ledger.Stream("quiet", "train");
  const ByteCharge some = quiet->Add(ByteKind::kOutgoing, 100);
  EXPECT_FALSE(quiet->IsOver(BytePool::kOutgoing));
  EXPECT_TRUE(ledger.Job("greedy", "train")->IsOver(BytePool::kOutgoing));
}

TEST(ByteLedgerTest, AWaiterOfAFullTenantIsWokenByAnotherJobsRelease) {
  ByteLedger ledger(kLimits);
  ByteCharge other = ledger.Job("vision", "other")->Add(ByteKind::kEvents, 1000);
  int woken = 0;
  const auto owner = std::make_shared<int>();
  ledger.Job("vision", "train")->AwaitRoom(BytePool::kQueued, 1, owner, [&] { ++woken; });
  EXPECT_EQ(woken, 0);
  other.Release();
  EXPECT_EQ(woken, 1);
}

TEST(ByteLedgerTest, AccountsOfJobsThatHaveGoneAreForgotten) {
  ByteLedger ledger(kLimits);
  const auto kept = ledger.Job("vision", "kept");
  for (int job = 0; job < 10'000; ++job) ledger.Job("vision", absl::StrCat("job", job));
  EXPECT_LE(ledger.jobs(), 1025u);
  EXPECT_EQ(ledger.Job("vision", "kept"), kept);
}

// Threads charge, move, grow, shrink and release, are refused and wait: at the end nothing is left anywhere.
TEST(ByteLedgerTest, ChurnLeavesNothing) {
  ByteLedger ledger(kLimits);
  std::atomic<int> asked{0}, woken{0};
  const auto owner = std::make_shared<int>();
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&ledger, &asked, &woken, &owner, seed] {
      std::mt19937 random(seed);
      std::vector<ByteCharge> charges(64);
      for (int i = 0; i < 50'000; ++i) {
        const auto account = ledger.Stream(absl::StrCat("tenant", random() % 3), absl::StrCat("job", random() % 5));
        const auto kind = static_cast<ByteKind>(random() % kByteKinds);
        const int64_t bytes = random() % 300;
        ByteCharge& charge = charges[random() % charges.size()];
        switch (random() % 5) {
          case 0:
            charge.Release();
            break;
          case 1:
            charge = account->Add(kind, bytes);
            break;
          case 2:
            charge.Resize(bytes);
            break;
          default:
            if (account->Take(kind, bytes, static_cast<ByteClass>(random() % 3), &charge).ok() || i % 100 != 0) break;
            ++asked;
            account->AwaitRoom(PoolOf(kind), bytes, owner, [&woken] { ++woken; });
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t kind = 0; kind < kByteKinds; ++kind) {
    EXPECT_EQ(ledger.process().held(static_cast<ByteKind>(kind)), 0) << NameOf(static_cast<ByteKind>(kind));
  }
  ledger.ForEachTenant([](const std::string& name, const ByteAccount& tenant) {
    for (size_t pool = 0; pool < kBytePools; ++pool) EXPECT_EQ(tenant.held(static_cast<BytePool>(pool)), 0) << name;
  });
  EXPECT_GT(ledger.process().sheds(ByteKind::kEvents), 0u);
  EXPECT_EQ(woken, asked);
}

}  // namespace
}  // namespace farandole
