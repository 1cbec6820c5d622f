#include "worker/member/host_measures.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/measure/rank_meter.h"

namespace farandole {
namespace {

constexpr int64_t kMs = 1'000'000;

class HostMeasuresTest : public ::testing::Test {
 protected:
  // A host with ranks 4 and 5.
  HostMeasuresTest() { measures_.Start(4, 6, 0); }
  const v1::Measures& Look(int64_t now_ns, bool speaks = false, const LastArrivals* arrivals = nullptr) {
    columns_.Clear();
    measures_.Look([this](int rank) { return &records_[rank]; }, speaks, arrivals, now_ns, &columns_);
    return columns_;
  }

  std::map<int, RankRecord> records_;
  NetworkCounters network_;
  HostMeasures measures_{[this] { return network_; }};
  v1::Measures columns_;
};

TEST_F(HostMeasuresTest, TellsWhatHasHappenedSinceTheLastLook) {
  records_[5].waited_ns = 300 * kMs;
  records_[5].waited_in_batch_ns = 100 * kMs;
  records_[5].batch_ns = 150 * kMs;
  records_[5].cpu_ns = 20 * kMs;
  records_[5].named_steps = 7;
  records_[5].last_slot = 3;
  EXPECT_EQ(Look(500 * kMs).interval_us(), 500'000u);
  ASSERT_EQ(columns_.waited_us_size(), 2);
  EXPECT_EQ(columns_.waited_us(0), 0u);
  EXPECT_EQ(columns_.waited_us(1), 300'000u);
  EXPECT_EQ(columns_.waited_in_batch_us(1), 100'000u);
  EXPECT_EQ(columns_.batch_us(1), 150'000u);
  EXPECT_EQ(columns_.cpu_us(1), 20'000u);
  EXPECT_EQ(columns_.steps(1), 7u);
  EXPECT_EQ(columns_.last_slot(1), 3u);
  records_[5].waited_ns = 350 * kMs;
  EXPECT_EQ(Look(1000 * kMs).waited_us(1), 50'000u);
  EXPECT_EQ(columns_.steps(1), 0u);
}

TEST_F(HostMeasuresTest, AWaitThatGoesOnCountsAsFarAsItHasCome) {
  // The program waits by calls of 100 ms at most.
  records_[4].stuck_since_ns = 50 * kMs;
  records_[4].waiting_since_ns = 100 * kMs;
  EXPECT_EQ(Look(500 * kMs).waited_us(0), 400'000u);
  EXPECT_EQ(columns_.waiting_us(0), 450'000u);
  EXPECT_EQ(columns_.waited_in_batch_us(0), 0u);
  // It ends: what was told before is not told again.
  records_[4].waiting_since_ns = 0;
  records_[4].stuck_since_ns = 0;
  records_[4].waited_ns = 600 * kMs;
  EXPECT_EQ(Look(1000 * kMs).waited_us(0), 200'000u);
  EXPECT_EQ(columns_.waiting_us(0), 0u);
}

TEST_F(HostMeasuresTest, ACollectiveThatGoesOnIsPartOfTheWaitForIt) {
  records_[4].waiting_since_ns = 100 * kMs;
  records_[4].batch_since_ns = 300 * kMs;
  records_[4].batch_slot = 9;
  EXPECT_EQ(Look(500 * kMs).waited_in_batch_us(0), 200'000u);
  EXPECT_EQ(columns_.running_us(0), 200'000u);
  EXPECT_EQ(columns_.batch_slot(0), 9u);
}

TEST_F(HostMeasuresTest, TheProcessStatesItsCpuTime) {
  RankRecord own = {};
  measures_.State(&own, {});
  const int64_t before_ns = own.cpu_ns;
  EXPECT_GT(before_ns, 0);
  uint64_t sum = 0;
  while (sum < 50'000'000) ++sum;
  measures_.State(&own, {});
  EXPECT_GE(own.cpu_ns, before_ns);
  EXPECT_EQ(own.peer_count, 0u);
}

TEST_F(HostMeasuresTest, SectionsAreRowsOfANumberForEachRank) {
  const auto mark = [this](int rank, uint32_t section, const std::string& name, int64_t ms) {
    RankRecord::Section& one = records_[rank].sections[section];
    name.copy(one.name, RankRecord::kMostSectionBytes);
    one.name_bytes = static_cast<uint32_t>(name.size());
    one.own_ns = ms * kMs;
    records_[rank].section_count = section + 1;
  };
  Look(500 * kMs);
  EXPECT_EQ(columns_.sections_size(), 0);
  mark(4, 0, "data", 12);
  mark(4, 1, "step", 0);
  mark(5, 0, "backward", 40);
  mark(5, 1, "data", 310);
  Look(1000 * kMs);
  EXPECT_THAT(columns_.sections(), ::testing::ElementsAre("data", "backward"));
  EXPECT_THAT(columns_.section_us(), ::testing::ElementsAre(12'000, 310'000, 0, 40'000));
  mark(5, 1, "data", 315);
  Look(1500 * kMs);
  EXPECT_THAT(columns_.sections(), ::testing::ElementsAre("data"));
  EXPECT_THAT(columns_.section_us(), ::testing::ElementsAre(0, 5'000));
}

TEST_F(HostMeasuresTest, OfTheConnectionsToAHostTheBusiestRankIsTold) {
  std::vector<HostMeasures::Sending> sendings[2];
  HostMeasures ranks[2];
  const auto state = [&] {
    for (int at = 0; at < 2; ++at) {
      ranks[at].Start(4, 6, 0, [&, at] { return sendings[at]; });
      ranks[at].State(&records_[4 + at], {});
    }
  };
  sendings[0] = {{1, 100 * kMs, 1000}, {3, 20 * kMs, 7000}};
  sendings[1] = {{3, 30 * kMs, 6000}};
  state();
  Look(500 * kMs);
  EXPECT_THAT(columns_.peer_hosts(), ::testing::ElementsAre(1, 3));
  EXPECT_THAT(columns_.peer_sending_us(), ::testing::ElementsAre(100'000, 30'000));
  EXPECT_THAT(columns_.peer_bytes(), ::testing::ElementsAre(1000, 6000));
  sendings[0] = {{1, 100 * kMs, 1000}, {3, 60 * kMs, 9000}};
  state();
  Look(1000 * kMs);
  EXPECT_THAT(columns_.peer_hosts(), ::testing::ElementsAre(3));
  EXPECT_THAT(columns_.peer_sending_us(), ::testing::ElementsAre(40'000));
  EXPECT_THAT(columns_.peer_bytes(), ::testing::ElementsAre(2000));
}

TEST_F(HostMeasuresTest, OfMoreThan16HostsTheFirstAreTold) {
  std::vector<HostMeasures::Sending> sendings;
  for (int host = 0; host < 40; ++host) sendings.push_back({host, kMs, 1});
  measures_.Start(4, 6, 0, [&] { return sendings; });
  measures_.State(&records_[4], {});
  Look(500 * kMs);
  EXPECT_EQ(columns_.peer_hosts_size(), 16);
}

TEST_F(HostMeasuresTest, ASumThatSeemsToGoBackIsToldLater) {
  // The wait has ended, and its time is not added yet.
  records_[4].waiting_since_ns = 100 * kMs;
  EXPECT_EQ(Look(500 * kMs).waited_us(0), 400'000u);
  records_[4].waiting_since_ns = 0;
  EXPECT_EQ(Look(501 * kMs).waited_us(0), 0u);
  records_[4].waited_ns = 410 * kMs;
  EXPECT_EQ(Look(600 * kMs).waited_us(0), 10'000u);
}

// The rank was stopped while it waited, and found the result before it looked at the clock again.
TEST_F(HostMeasuresTest, AWaitThatWasToldAndIsNeverAddedDoesNotHideThoseThatFollow) {
  records_[4].waited_ns = 700 * kMs;
  EXPECT_EQ(Look(1000 * kMs).waited_us(0), 700'000u);
  records_[4].waiting_since_ns = 1000 * kMs;
  EXPECT_EQ(Look(21'000 * kMs).waited_us(0), 20'000'000u);
  records_[4].waiting_since_ns = 0;
  records_[4].waited_ns += 10 * kMs;
  EXPECT_EQ(Look(22'000 * kMs).waited_us(0), 0u);
  records_[4].waited_ns += 300 * kMs;
  EXPECT_EQ(Look(23'000 * kMs).waited_us(0), 300'000u);
  records_[4].waited_ns += 40 * kMs;
  EXPECT_EQ(Look(24'000 * kMs).waited_us(0), 40'000u);
}

// Another thread's wait of 100 ms hides the first one's from the record.
TEST_F(HostMeasuresTest, WaitsOfTwoThreadsAreToldOnce) {
  uint64_t told_us = 0;
  int64_t now = 0;
  for (int beat = 0; beat < 5; ++beat) {
    records_[4].waiting_since_ns = now + 10 * kMs;
    told_us += Look(now + 100 * kMs).waited_us(0);
    records_[4].waiting_since_ns = now + 101 * kMs;
    told_us += Look(now + 102 * kMs).waited_us(0);
    told_us += Look(now + 104 * kMs).waited_us(0);
    records_[4].waiting_since_ns = 0;
    records_[4].waited_ns += 110 * kMs;
    now += 200 * kMs;
  }
  told_us += Look(now).waited_us(0);
  EXPECT_EQ(told_us, 5 * 110'000u);
}

TEST_F(HostMeasuresTest, TheNetworkCountsWhileTheRankSpeaksForTheHost) {
  network_ = {1000, 2000, 3};
  EXPECT_EQ(Look(1 * kMs, true).received_bytes(), 0u);
  network_ = {1500, 2600, 4};
  EXPECT_EQ(Look(2 * kMs, true).received_bytes(), 500u);
  EXPECT_EQ(columns_.sent_bytes(), 600u);
  EXPECT_EQ(columns_.retransmits(), 1u);
  // Another rank speaks for a while.
  Look(3 * kMs);
  network_ = {9000, 9000, 9};
  EXPECT_EQ(Look(4 * kMs, true).received_bytes(), 0u);
}

TEST_F(HostMeasuresTest, TheRanksThatKeptOthersWaitingForLongestComeFirst) {
  LastArrivals arrivals(100);
  arrivals.OnStep(1);
  arrivals.OnMissing(7, 0);
  arrivals.OnMet(5 * kMs);
  arrivals.OnMissing(9, 5 * kMs);
  arrivals.OnMet(25 * kMs);
  arrivals.OnStep(2);
  Look(30 * kMs, false, &arrivals);
  ASSERT_EQ(columns_.late_ranks_size(), 2);
  EXPECT_EQ(columns_.late_ranks(0), 9u);
  EXPECT_EQ(columns_.late_steps(0), 1u);
  EXPECT_EQ(columns_.late_us(0), 20'000u);
  EXPECT_EQ(columns_.late_ranks(1), 7u);
  EXPECT_EQ(columns_.late_steps(1), 0u);
  Look(40 * kMs, false, &arrivals);
  EXPECT_EQ(columns_.late_ranks_size(), 0);
}

TEST_F(HostMeasuresTest, AtMost32RanksAreNamed) {
  LastArrivals arrivals(100);
  for (int rank = 1; rank < 60; ++rank) {
    arrivals.OnMissing(rank, rank * kMs);
    arrivals.OnMet((rank + 1) * kMs + rank);
  }
  Look(90 * kMs, false, &arrivals);
  EXPECT_EQ(columns_.late_ranks_size(), 32);
}

}  // namespace
}  // namespace farandole
