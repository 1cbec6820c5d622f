#include "worker/core/doorbell.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

// Longer than any test takes: a thread that only the time limit wakes fails by the test's time.
constexpr absl::Duration kLong = absl::Seconds(30);

// Zero at first, as in shared memory.
std::unique_ptr<Doorbell> MakeBell() { return std::unique_ptr<Doorbell>(new Doorbell()); }

TEST(DoorbellTest, ARingWakesOnlyWhomTheBellSays) {
  std::unique_ptr<Doorbell> bell = MakeBell();
  const struct {
    Attention attention;
    bool by_ring;
    bool by_summon;
  } cases[] = {{Attention::kPolling, false, false},
               {Attention::kDriverAsleep, true, true},
               {Attention::kDataThreadAsleep, true, true},
               {Attention::kUnconcerned, false, true}};
  for (const auto& tested : cases) {
    bell->SetAttention(tested.attention);
    uint32_t ticket = bell->Ticket();
    bell->Ring();
    EXPECT_EQ(bell->Ticket() != ticket, tested.by_ring) << static_cast<int>(tested.attention);
    bell->SetAttention(tested.attention);
    ticket = bell->Ticket();
    bell->Summon();
    EXPECT_EQ(bell->Ticket() != ticket, tested.by_summon) << static_cast<int>(tested.attention);
  }
}

TEST(DoorbellTest, OneRingIsPaidForAndTheNextFindsTheRankAwake) {
  std::unique_ptr<Doorbell> bell = MakeBell();
  bell->SetAttention(Attention::kDriverAsleep);
  bell->Ring();
  const uint32_t ticket = bell->Ticket();
  bell->Ring();
  bell->Summon();
  EXPECT_EQ(bell->Ticket(), ticket);
}

TEST(DoorbellTest, ConcernIsForTheUnconcernedOnly) {
  std::unique_ptr<Doorbell> bell = MakeBell();
  for (Attention attention : {Attention::kPolling, Attention::kUnconcerned}) {
    bell->SetAttention(attention);
    bell->Concern();
    const uint32_t ticket = bell->Ticket();
    bell->Ring();
    EXPECT_EQ(bell->Ticket() != ticket, attention == Attention::kUnconcerned);
  }
}

TEST(DoorbellTest, ASleepEndsAtOnceIfTheBellRangSinceTheTicket) {
  std::unique_ptr<Doorbell> bell = MakeBell();
  const uint32_t ticket = bell->Ticket();
  bell->SetAttention(Attention::kDriverAsleep);
  bell->Ring();
  const absl::Time started = absl::Now();
  bell->Sleep(ticket, Attention::kDriverAsleep, kLong);
  EXPECT_LT(absl::Now() - started, kLong / 2);
}

TEST(DoorbellTest, ASleepEndsAtItsLimit) {
  std::unique_ptr<Doorbell> bell = MakeBell();
  bell->Sleep(bell->Ticket(), Attention::kDriverAsleep, absl::Milliseconds(1));
  bell->Sleep(bell->Ticket(), Attention::kDriverAsleep, absl::ZeroDuration());
}

TEST(DoorbellTest, RingAllWakesTheDriverAndTheDataThread) {
  std::unique_ptr<Doorbell> bell = MakeBell();
  const absl::Time started = absl::Now();
  const uint32_t ticket = bell->Ticket();
  std::thread driver([&] { bell->Sleep(ticket, Attention::kDriverAsleep, kLong); });
  std::thread data([&] { bell->Sleep(ticket, Attention::kDataThreadAsleep, kLong); });
  bell->RingAll();
  driver.join();
  data.join();
  EXPECT_LT(absl::Now() - started, kLong / 2);
}

// One rank whose owner sleeps whenever there is nothing new, as a driver and as the data thread by turns, while peers
// publish and ring. Each lost wake-up would cost `kLong`.
TEST(DoorbellTest, NothingThatPeersPublishIsSleptThrough) {
  constexpr int kPeers = 3;
  constexpr uint64_t kEach = 20000;
  std::unique_ptr<Doorbell> bell = MakeBell();
  std::atomic<uint64_t> published[kPeers] = {};
  std::atomic<uint64_t> seen[kPeers] = {};
  std::vector<std::thread> peers;
  for (int peer = 0; peer < kPeers; ++peer) {
    peers.emplace_back([&, peer] {
      for (uint64_t value = 1; value <= kEach; ++value) {
        published[peer].store(value);
        bell->Ring();
        // In steps of different lengths, so that the owner falls asleep often.
        while (value % (peer + 2) == 0 && seen[peer].load() < value) std::this_thread::yield();
      }
    });
  }
  auto look = [&] {
    bool moved = false;
    for (int peer = 0; peer < kPeers; ++peer) {
      const uint64_t value = published[peer].load();
      if (value == seen[peer].load()) continue;
      seen[peer].store(value);
      moved = true;
    }
    return moved;
  };
  auto done = [&] {
    uint64_t sum = 0;
    for (auto& value : seen) sum += value.load();
    return sum == kPeers * kEach;
  };
  const absl::Time started = absl::Now();
  for (bool drives = true; !done(); drives = !drives) {
    const Attention attention = drives ? Attention::kDriverAsleep : Attention::kDataThreadAsleep;
    const uint32_t ticket = bell->Ticket();
    bell->SetAttention(attention);
    if (!look()) bell->Sleep(ticket, attention, kLong);
    bell->SetAttention(Attention::kPolling);
  }
  for (std::thread& peer : peers) peer.join();
  EXPECT_LT(absl::Now() - started, kLong);
}

}  // namespace
}  // namespace farandole
