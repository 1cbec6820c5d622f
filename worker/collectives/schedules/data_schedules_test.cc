#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collectives/schedules/binomial_tree_broadcast.h"
#include "worker/collectives/schedules/direct_reducescatter.h"
#include "worker/collectives/schedules/dissemination_barrier.h"
#include "worker/collectives/schedules/pairwise_alltoall.h"
#include "worker/collectives/schedules/ring_allgather.h"
#include "worker/collectives/schedules/ring_reducescatter.h"
#include "worker/collectives/schedules/symbolic_run.h"

namespace farandole {
namespace {

constexpr int kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 32, 33};

// Counts by rank: all the same, from none to 64 in all at 8 ranks; all different; one rank has all, or none. Of many
// ranks, that one is the first, one in the middle or the last.
std::vector<std::vector<int64_t>> CountsFor(int size) {
  std::vector<std::vector<int64_t>> all;
  for (int64_t same = 0; same <= 8; ++same) all.emplace_back(size, same);
  std::vector<int64_t> rising(size);
  std::iota(rising.begin(), rising.end(), 0);
  all.push_back(rising);
  for (int rank = 0; rank < size; ++rank) {
    if (size > 8 && rank != 0 && rank != size / 2 && rank != size - 1) continue;
    std::vector<int64_t> one(size, 0);
    one[rank] = 5;
    all.push_back(one);
    std::vector<int64_t> gap(size, 3);
    gap[rank] = 0;
    all.push_back(gap);
  }
  return all;
}

TEST(RingAllgatherTest, EveryRankHoldsAllPiecesInOrder) {
  for (const int size : kSizes) {
    for (const std::vector<int64_t>& counts : CountsFor(size)) {
      std::vector<Schedule> schedules;
      for (int position = 0; position < size; ++position) {
        schedules.push_back(RingAllgather(position, counts));
        EXPECT_EQ(schedules.back().scratch_count, 0);
      }
      const std::vector<Piece> pieces = SharesOf(counts);
      SymbolicRun run(std::move(schedules), std::accumulate(counts.begin(), counts.end(), int64_t{0}));
      for (int rank = 0; rank < size; ++rank) {
        for (int64_t i = 0; i < counts[rank]; ++i) {
          run.Set(rank, pieces[rank].offset + i, run.Contribution(rank, i));
        }
      }
      const absl::Status status = run.Run();
      ASSERT_TRUE(status.ok()) << status;
      for (int rank = 0; rank < size; ++rank) {
        for (int from = 0; from < size; ++from) {
          for (int64_t i = 0; i < counts[from]; ++i) {
            ASSERT_EQ(run.At(rank, pieces[from].offset + i), run.Contribution(from, i));
          }
        }
      }
    }
  }
}

// The rows that `from` has for `to`; some ranks have none for any rank, and some none for themselves.
int64_t CountFor(int from, int to, int64_t most) { return (from * 5 + to * 3) % (most + 1); }

void ExpectEveryRankHoldsWhatIsForIt(int size, int64_t most, int most_peers) {
  std::vector<std::vector<int64_t>> sent(size);
  std::vector<std::vector<int64_t>> received(size);
  for (int from = 0; from < size; ++from) {
    for (int to = 0; to < size; ++to) {
      sent[from].push_back(CountFor(from, to, most));
      received[from].push_back(CountFor(to, from, most));
    }
  }
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < size; ++rank) {
    schedules.push_back(PairwiseAlltoall(rank, sent[rank], received[rank], most_peers));
    EXPECT_EQ(schedules.back().scratch_count, 0);
    for (const Round& round : schedules.back().rounds) EXPECT_LE(round.size(), 2u * most_peers);
  }
  SymbolicRun run(std::move(schedules), size * most);
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<Piece> outgoing = SharesOf(sent[rank]);
    std::vector<SymbolicRun::Value> input;
    for (int64_t i = 0; i < outgoing.back().offset + outgoing.back().count; ++i) {
      input.push_back(run.Contribution(rank, i));
    }
    const Piece own = SharesOf(received[rank])[rank];
    for (int64_t i = 0; i < own.count; ++i) run.Set(rank, own.offset + i, input[outgoing[rank].offset + i]);
    run.SetInput(rank, std::move(input));
  }
  const absl::Status status = run.Run();
  ASSERT_TRUE(status.ok()) << status;
  for (int rank = 0; rank < size; ++rank) {
    int64_t at = 0;
    for (int from = 0; from < size; ++from) {
      const Piece piece = SharesOf(sent[from])[rank];
      for (int64_t i = 0; i < piece.count; ++i) {
        ASSERT_EQ(run.At(rank, at++), run.Contribution(from, piece.offset + i)) << from << " to " << rank;
      }
    }
  }
}

TEST(PairwiseAlltoallTest, EveryRankHoldsWhatIsForItInTheOrderOfRanks) {
  for (const int size : kSizes) {
    for (const int64_t most : {0, 1, 2, 6}) {
      for (const int most_peers : {1, 3, 100}) ExpectEveryRankHoldsWhatIsForIt(size, most, most_peers);
    }
  }
}

void ExpectEveryRankHoldsItsShare(std::vector<Schedule> schedules, const std::vector<int64_t>& counts) {
  SymbolicRun run(std::move(schedules), std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  run.ContributeAll();
  const absl::Status status = run.Run();
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<Piece> shares = SharesOf(counts);
  for (int rank = 0; rank < run.size(); ++rank) {
    const Piece& share = shares[rank];
    for (int64_t i = share.offset; i < share.offset + share.count; ++i) {
      ASSERT_TRUE(run.IsResult(run.At(rank, i), i));
    }
  }
}

TEST(RingReducescatterTest, EveryRankHoldsTheResultOfItsShare) {
  for (const int size : kSizes) {
    for (const std::vector<int64_t>& counts : CountsFor(size)) {
      std::vector<Schedule> schedules;
      for (int position = 0; position < size; ++position) {
        schedules.push_back(RingReducescatter(position, counts));
      }
      ExpectEveryRankHoldsItsShare(std::move(schedules), counts);
    }
  }
}

TEST(DirectReducescatterTest, EveryRankHoldsTheResultOfItsShareInTheOrderOfRanks) {
  for (const int size : kSizes) {
    for (const std::vector<int64_t>& counts : CountsFor(size)) {
      for (const int64_t most_slice : {1, 3, 1000}) {
        std::vector<Schedule> schedules;
        for (int position = 0; position < size; ++position) {
          schedules.push_back(DirectReducescatter(position, counts, most_slice));
          EXPECT_LE(schedules.back().scratch_count, (size - 1) * most_slice);
        }
        ExpectEveryRankHoldsItsShare(std::move(schedules), counts);
      }
    }
  }
  const std::vector<int64_t> counts = {0, 2, 1};
  SymbolicRun run(
      {DirectReducescatter(0, counts, 1), DirectReducescatter(1, counts, 1), DirectReducescatter(2, counts, 1)}, 3);
  run.ContributeAll();
  ASSERT_TRUE(run.Run().ok());
  EXPECT_EQ(run.Describe(run.At(1, 1)), "finish(0+1+2)");
}

// Broadcasts `count` elements and looks at every rank.
void ExpectAllHoldTheRoots(int size, int root, int64_t count, int64_t most_chunk) {
  std::vector<Schedule> schedules;
  for (int position = 0; position < size; ++position) {
    schedules.push_back(BinomialTreeBroadcast(position, size, root, count, most_chunk));
    EXPECT_EQ(schedules.back().scratch_count, 0);
  }
  SymbolicRun run(std::move(schedules), count);
  for (int64_t i = 0; i < count; ++i) {
    run.Set(root, i, run.Contribution(root, i));
  }
  const absl::Status status = run.Run();
  ASSERT_TRUE(status.ok()) << status;
  for (int rank = 0; rank < size; ++rank) {
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(run.At(rank, i), run.Contribution(root, i))
          << "element " << i << " on rank " << rank << " of " << size << ", root " << root;
    }
  }
}

TEST(BinomialTreeBroadcastTest, EveryRankHoldsTheRootsElements) {
  for (int size = 1; size <= 8; ++size) {
    for (int root = 0; root < size; ++root) {
      for (int64_t count = 0; count <= 70; ++count) {
        ExpectAllHoldTheRoots(size, root, count, 1000);
        ExpectAllHoldTheRoots(size, root, count, 16);
      }
    }
  }
  for (int size = 9; size <= 33; ++size) {
    for (int root = 0; root < size; ++root) {
      ExpectAllHoldTheRoots(size, root, 7, 3);
    }
  }
}

TEST(BinomialTreeBroadcastTest, ChunksFollowEachOther) {
  // The root sends ten chunks; the last rank of eight, three levels down, has
  // only to receive them.
  EXPECT_EQ(BinomialTreeBroadcast(0, 8, 0, 100, 10).rounds.size(), 10u);
  EXPECT_EQ(BinomialTreeBroadcast(7, 8, 0, 100, 10).rounds.size(), 10u);
  EXPECT_EQ(BinomialTreeBroadcast(4, 8, 0, 100, 10).rounds.size(), 11u);
}

TEST(DisseminationBarrierTest, NoRankLeavesBeforeAllHaveCome) {
  for (int size = 1; size <= 33; ++size) {
    std::vector<Schedule> schedules;
    for (int position = 0; position < size; ++position) {
      schedules.push_back(DisseminationBarrier(position, size));
    }
    SymbolicRun run(std::move(schedules), 0);
    const absl::Status status = run.Run();
    ASSERT_TRUE(status.ok()) << status;
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_TRUE(run.HasHeardOfAll(rank)) << rank << " of " << size;
    }
  }
}

}  // namespace
}  // namespace farandole
