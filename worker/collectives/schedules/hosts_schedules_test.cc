// Schedules for groups on several hosts, run on expressions over every shape of up to 8 ranks.
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "worker/collectives/schedules/direct_reducescatter.h"
#include "worker/collectives/schedules/hierarchical_allreduce.h"
#include "worker/collectives/schedules/hosts_broadcast.h"
#include "worker/collectives/schedules/leaders_allgather.h"
#include "worker/collectives/schedules/leaders_allreduce.h"
#include "worker/collectives/schedules/leaders_barrier.h"
#include "worker/collectives/schedules/symbolic_run.h"

namespace farandole {
namespace {

using Sizes = std::vector<int>;

void AddShapes(int ranks, Sizes* begun, std::vector<Sizes>* shapes) {
  if (ranks == 0) {
    if (begun->size() > 1) shapes->push_back(*begun);
    return;
  }
  for (int next = 1; next <= ranks; ++next) {
    begun->push_back(next);
    AddShapes(ranks - next, begun, shapes);
    begun->pop_back();
  }
}

// Every way to put up to 8 ranks on two hosts or more, and some larger ones.
std::vector<Sizes> Shapes() {
  std::vector<Sizes> shapes;
  Sizes begun;
  for (int ranks = 2; ranks <= 8; ++ranks) AddShapes(ranks, &begun, &shapes);
  shapes.push_back(Sizes(20, 1));
  shapes.push_back(Sizes(17, 2));
  shapes.push_back({8, 8, 8, 8});
  shapes.push_back({1, 9, 3, 8, 2, 2, 7});
  return shapes;
}

int RanksOf(const Sizes& sizes) { return std::accumulate(sizes.begin(), sizes.end(), 0); }

std::vector<Schedule> SchedulesOf(const Sizes& sizes, const std::function<Schedule(const GroupShape& shape)>& make) {
  std::vector<Schedule> schedules;
  for (int position = 0; position < RanksOf(sizes); ++position) schedules.push_back(make(GroupShape(position, sizes)));
  return schedules;
}

std::string Name(const Sizes& sizes) { return absl::StrJoin(sizes, "+"); }

void ExpectReduces(const Sizes& sizes, int64_t count, const std::function<Schedule(const GroupShape& shape)>& make) {
  SymbolicRun run(SchedulesOf(sizes, make), count);
  run.ContributeAll();
  const absl::Status status = run.Run();
  ASSERT_TRUE(status.ok()) << Name(sizes) << ", " << count << " elements: " << status;
  for (int64_t i = 0; i < count; ++i) {
    const SymbolicRun::Value result = run.At(0, i);
    ASSERT_TRUE(run.IsResult(result, i)) << run.Describe(result) << " for element " << i << " on " << Name(sizes);
    for (int rank = 1; rank < run.size(); ++rank) {
      ASSERT_EQ(run.At(rank, i), result) << run.Describe(run.At(rank, i)) << " on rank " << rank << " of "
                                         << Name(sizes) << ", " << run.Describe(result) << " on rank 0";
    }
  }
}

TEST(HierarchicalAllreduceTest, AllRanksHoldOneExpressionWithEveryContributionOnce) {
  for (const Sizes& sizes : Shapes()) {
    for (const int64_t count : {0, 1, 2, 3, 7, 16, 33, 70}) {
      for (const int64_t most_piece : {1, 3, 1000}) {
        ExpectReduces(sizes, count,
                      [&](const GroupShape& shape) { return HierarchicalAllreduce(shape, count, most_piece); });
      }
    }
  }
}

TEST(HierarchicalAllreduceTest, WithOneRankOnEachOfManyHostsItIsTheRing) {
  const Sizes sizes(9, 1);
  std::vector<Schedule> schedules =
      SchedulesOf(sizes, [](const GroupShape& shape) { return HierarchicalAllreduce(shape, 27, 3); });
  EXPECT_EQ(schedules[0].algorithm, "ring allreduce");
  EXPECT_EQ(schedules[0].rounds.size(), 16u);
  for (int rank = 0; rank < 9; ++rank) {
    for (const Round& round : schedules[rank].rounds) {
      for (const Step& step : round) {
        if (step.kind == Step::Kind::kReduce) continue;
        EXPECT_EQ(step.peer, (rank + (step.kind == Step::Kind::kSend ? 1 : 8)) % 9);
      }
    }
  }
}

std::string OrderOf(const Sizes& sizes, int64_t count, int64_t element,
                    const std::function<Schedule(const GroupShape& shape)>& make) {
  SymbolicRun run(SchedulesOf(sizes, make), count);
  run.ContributeAll();
  EXPECT_TRUE(run.Run().ok());
  return run.Describe(run.At(0, element));
}

TEST(HierarchicalAllreduceTest, UpTo8HostsEveryElementIsAddedInTheOrderOfHosts) {
  const auto order_of = [](const Sizes& sizes, int64_t element) {
    return OrderOf(sizes, 70, element, [](const GroupShape& shape) { return HierarchicalAllreduce(shape, 70, 3); });
  };
  for (int64_t element = 0; element < 70; ++element) {
    ASSERT_EQ(order_of({1, 1, 1}, element), "finish(0+1+2)") << element;
    ASSERT_EQ(order_of({2, 1, 3}, element), "finish((0+1)+2+(3+4+5))") << element;
    ASSERT_EQ(order_of({2, 2}, element), "finish((0+1)+(2+3))") << element;
  }
}

int64_t SentToOtherHosts(const GroupShape& shape, const Schedule& schedule) {
  int64_t sent = 0;
  for (const Round& round : schedule.rounds) {
    for (const Step& step : round) {
      if (step.kind == Step::Kind::kSend && shape.HostOf(step.peer) != shape.host()) sent += step.piece.count;
    }
  }
  return sent;
}

TEST(HierarchicalAllreduceTest, AHostSendsItsElementsLessThanTwice) {
  for (const Sizes& sizes : Shapes()) {
    constexpr int64_t kCount = 840;
    const int64_t hosts = static_cast<int64_t>(sizes.size());
    std::vector<int64_t> sent(sizes.size(), 0);
    for (int position = 0; position < RanksOf(sizes); ++position) {
      const GroupShape shape(position, sizes);
      sent[shape.host()] += SentToOtherHosts(shape, HierarchicalAllreduce(shape, kCount, 4));
    }
    // Parts of a chunk differ by one element.
    for (const int64_t elements : sent) EXPECT_LE(elements, 2 * kCount) << Name(sizes);
    EXPECT_LE(std::accumulate(sent.begin(), sent.end(), int64_t{0}), 2 * (hosts - 1) * kCount) << Name(sizes);
  }
}

TEST(HierarchicalAllreduceTest, ChunksOverlap) {
  // 10 chunks of 4 rounds in 13, not in 40.
  const Sizes sizes = {2, 2, 2};
  EXPECT_EQ(HierarchicalAllreduce(GroupShape(0, sizes), 600, 10).rounds.size(), 13u);
  // The contributions of the host's ranks in the first round, and of the other hosts in the second one.
  EXPECT_EQ(HierarchicalAllreduce(GroupShape(0, sizes), 600, 10).scratch_count, 30 + 20);
}

TEST(LeadersAllreduceTest, AllRanksHoldOneExpressionWithEveryContributionOnce) {
  for (const Sizes& sizes : Shapes()) {
    for (const int64_t count : {0, 1, 5}) {
      ExpectReduces(sizes, count, [&](const GroupShape& shape) { return LeadersAllreduce(shape, count); });
    }
  }
}

TEST(LeadersAllreduceTest, AddsWithinHostsAndThenInTheOrderOfHosts) {
  const auto order_of = [](const Sizes& sizes) {
    return OrderOf(sizes, 2, 1, [](const GroupShape& shape) { return LeadersAllreduce(shape, 2); });
  };
  EXPECT_EQ(order_of({1, 1}), "finish(0+1)");
  EXPECT_EQ(order_of({2, 1}), "finish((0+1)+2)");
  EXPECT_EQ(order_of({2, 3}), "finish((0+1)+(2+3+4))");
  EXPECT_EQ(order_of({2, 1, 1}), "finish((0+1)+2+3)");
}

TEST(LeadersAllreduceTest, MoreHostsAddByHalves) {
  const auto make = [](const GroupShape& shape) { return LeadersAllreduce(shape, 2); };
  EXPECT_EQ(OrderOf({2, 1, 1, 1, 1, 1, 1, 1, 1}, 2, 1, make), "finish(((((0+1)+2)+3)+(4+5))+((6+7)+(8+9)))");
}

TEST(LeadersAllgatherTest, EveryRankHoldsAllPiecesInOrder) {
  for (const Sizes& sizes : Shapes()) {
    for (const int64_t step : {0, 1, 3}) {
      std::vector<int64_t> counts;
      for (int rank = 0; rank < RanksOf(sizes); ++rank) counts.push_back(step == 3 ? (rank * 3) % 4 : step);
      SymbolicRun run(SchedulesOf(sizes, [&](const GroupShape& shape) { return LeadersAllgather(shape, counts); }),
                      std::accumulate(counts.begin(), counts.end(), int64_t{0}));
      const std::vector<Piece> pieces = SharesOf(counts);
      for (int rank = 0; rank < run.size(); ++rank) {
        for (int64_t i = 0; i < counts[rank]; ++i) run.Set(rank, pieces[rank].offset + i, run.Contribution(rank, i));
      }
      const absl::Status status = run.Run();
      ASSERT_TRUE(status.ok()) << Name(sizes) << ": " << status;
      for (int rank = 0; rank < run.size(); ++rank) {
        for (int from = 0; from < run.size(); ++from) {
          for (int64_t i = 0; i < counts[from]; ++i) {
            ASSERT_EQ(run.At(rank, pieces[from].offset + i), run.Contribution(from, i)) << Name(sizes);
          }
        }
      }
    }
  }
}

// Of different lengths, some empty.
std::vector<int64_t> SharesFor(const Sizes& sizes, int64_t step) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < RanksOf(sizes); ++rank) counts.push_back(step == 3 ? (rank * 3) % 5 : step);
  return counts;
}

TEST(HostsReducescatterTest, EveryRankHoldsTheResultOfItsShareAndAHostSendsElementsOfOthersOnce) {
  for (const Sizes& sizes : Shapes()) {
    for (const int64_t step : {0, 1, 3}) {
      const std::vector<int64_t> counts = SharesFor(sizes, step);
      const int64_t count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
      const auto make = [&](const GroupShape& shape) { return HostsReducescatter(shape, counts, 2); };
      int64_t sent = 0;
      for (int position = 0; position < RanksOf(sizes); ++position) {
        const GroupShape shape(position, sizes);
        sent += SentToOtherHosts(shape, make(shape));
      }
      const int64_t hosts = static_cast<int64_t>(sizes.size());
      if (hosts <= GroupShape::kMostDirectHosts) {
        EXPECT_EQ(sent, (hosts - 1) * count) << Name(sizes);
      }
      SymbolicRun run(SchedulesOf(sizes, make), count);
      run.ContributeAll();
      const absl::Status status = run.Run();
      ASSERT_TRUE(status.ok()) << Name(sizes) << ": " << status;
      const std::vector<Piece> shares = SharesOf(counts);
      for (int rank = 0; rank < run.size(); ++rank) {
        for (int64_t i = shares[rank].offset; i < shares[rank].offset + shares[rank].count; ++i) {
          ASSERT_TRUE(run.IsResult(run.At(rank, i), i)) << Name(sizes);
        }
      }
    }
  }
}

TEST(HostsReducescatterTest, AddsWithinHostsAndThenInTheOrderOfHosts) {
  const Sizes sizes = {2, 1, 3};
  const std::vector<int64_t> counts(6, 1);
  SymbolicRun run(SchedulesOf(sizes, [&](const GroupShape& shape) { return HostsReducescatter(shape, counts, 1000); }),
                  6);
  run.ContributeAll();
  ASSERT_TRUE(run.Run().ok());
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(run.Describe(run.At(rank, rank)), "finish((0+1)+2+(3+4+5))");
}

TEST(LeadersBarrierTest, NoRankLeavesBeforeAllHaveCome) {
  for (const Sizes& sizes : Shapes()) {
    SymbolicRun run(SchedulesOf(sizes, LeadersBarrier), 0);
    const absl::Status status = run.Run();
    ASSERT_TRUE(status.ok()) << Name(sizes) << ": " << status;
    for (int rank = 0; rank < run.size(); ++rank) EXPECT_TRUE(run.HasHeardOfAll(rank)) << rank << " of " << Name(sizes);
  }
}

TEST(HostsBroadcastTest, EveryRankHoldsTheRootsElementsAndEachHostGetsThemOnce) {
  for (const Sizes& sizes : Shapes()) {
    for (int root = 0; root < RanksOf(sizes); ++root) {
      for (const int64_t count : {0, 1, 7}) {
        const auto make = [&](const GroupShape& shape) { return HostsBroadcast(shape, root, count, 3); };
        int64_t sent = 0;
        for (int position = 0; position < RanksOf(sizes); ++position) {
          const GroupShape shape(position, sizes);
          sent += SentToOtherHosts(shape, make(shape));
        }
        EXPECT_EQ(sent, count * static_cast<int64_t>(sizes.size() - 1)) << Name(sizes);
        SymbolicRun run(SchedulesOf(sizes, make), count);
        for (int64_t i = 0; i < count; ++i) run.Set(root, i, run.Contribution(root, i));
        const absl::Status status = run.Run();
        ASSERT_TRUE(status.ok()) << Name(sizes) << ", root " << root << ": " << status;
        for (int rank = 0; rank < run.size(); ++rank) {
          for (int64_t i = 0; i < count; ++i) ASSERT_EQ(run.At(rank, i), run.Contribution(root, i)) << Name(sizes);
        }
      }
    }
  }
}

}  // namespace
}  // namespace farandole
