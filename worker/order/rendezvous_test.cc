#include "worker/order/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

using Outcome = Rendezvous::Outcome;

constexpr uint64_t kSignature = 77;
constexpr size_t kLarge = 4096;

// The contribution of a rank in a round; a large one differs from place to place.
std::string Contribution(int rank, uint64_t round, size_t bytes) {
  std::string contribution(bytes, '\0');
  const uint64_t start = round * 100 + static_cast<uint64_t>(rank);
  for (size_t at = 0; at < bytes; at += sizeof(start)) {
    const uint64_t word = start + at;
    std::memcpy(&contribution[at], &word, std::min(sizeof(word), bytes - at));
  }
  return contribution;
}

// The ranks' ends over one memory.
class Ranks {
 public:
  // Contributions have so many bytes.
  explicit Ranks(int size, size_t contribution_bytes = sizeof(uint64_t))
      : contribution_bytes_(contribution_bytes),
        room_(contribution_bytes > kInlineBytes ? RendezvousRoom{contribution_bytes, 2} : RendezvousRoom()),
        bytes_(Rendezvous::Bytes(size, room_)),
        memory_(new (std::align_val_t(64)) char[bytes_]()),
        bells_(new Doorbell[static_cast<size_t>(size)]()) {
    for (int rank = 0; rank < size; ++rank) bell_pointers_.push_back(&bells_[rank]);
    MakeEnds();
  }
  ~Ranks() { ::operator delete[](memory_, std::align_val_t(64)); }

  Rendezvous& operator[](int rank) { return *ends_[rank]; }
  int size() const { return static_cast<int>(bell_pointers_.size()); }

  // Offers with a payload that says of which rank and round it is.
  void Offer(int rank, uint32_t slot, uint64_t round) {
    std::string contribution = Contribution(rank, round, contribution_bytes_);
    if (contribution_bytes_ > kInlineBytes) {
      std::memcpy(ends_[rank]->Place(), contribution.data(), contribution_bytes_);
      contribution.clear();
    }
    ends_[rank]->Offer(slot, kSignature, contribution);
  }
  void ExpectAgreed(int rank, uint64_t round) {
    EXPECT_EQ(ends_[rank]->Look(), Outcome::kAgreed);
    for (int other = 0; other < size(); ++other) {
      EXPECT_EQ(std::string(ends_[rank]->payload(other, contribution_bytes_), contribution_bytes_),
                Contribution(other, round, contribution_bytes_))
          << "rank " << rank << " reads what rank " << other << " has offered";
    }
  }

  std::string Save() const { return std::string(memory_, bytes_); }
  // The ends go on where they were when the memory was so.
  void Restore(const std::string& saved) {
    std::memcpy(memory_, saved.data(), bytes_);
    MakeEnds();
  }

 private:
  void MakeEnds() {
    ends_.clear();
    for (int rank = 0; rank < size(); ++rank)
      ends_.push_back(std::make_unique<Rendezvous>(memory_, rank, bell_pointers_, room_));
  }

  const size_t contribution_bytes_;
  const RendezvousRoom room_;
  const size_t bytes_;
  char* const memory_;
  std::unique_ptr<Doorbell[]> bells_;
  std::vector<Doorbell*> bell_pointers_;
  std::vector<std::unique_ptr<Rendezvous>> ends_;
};

// The sizes of contributions that lie in one cache line, in several, and apart.
class RendezvousBytesTest : public ::testing::TestWithParam<size_t> {};

TEST_P(RendezvousBytesTest, ARoundIsAgreedWhenAllHaveOfferedTheSame) {
  for (int size = 2; size <= 8; ++size) {
    Ranks ranks(size, GetParam());
    for (uint64_t round = 1; round <= 5; ++round) {
      for (int rank = 0; rank < size; ++rank) {
        ASSERT_TRUE(ranks[rank].CanOffer());
        ranks.Offer(rank, 3, round);
        EXPECT_EQ(ranks[0].Look(), rank + 1 < size ? Outcome::kOpen : Outcome::kAgreed);
      }
      for (int rank = 0; rank < size; ++rank) ranks.ExpectAgreed(rank, round);
    }
  }
}

TEST(RendezvousTest, AnotherSlotOrSignatureDeclinesTheRound) {
  Ranks ranks(3);
  ranks[0].Offer(3, kSignature, "");
  ranks[1].Offer(4, kSignature, "");
  EXPECT_EQ(ranks[0].Look(), Outcome::kDeclined);
  EXPECT_EQ(ranks[1].Look(), Outcome::kDeclined);
  ranks[2].Offer(3, kSignature, "");
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks[rank].Look(), Outcome::kDeclined);
    ASSERT_TRUE(ranks[rank].CanOffer());
    ranks[rank].Offer(5, kSignature + (rank == 1 ? 1 : 0), "");
  }
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks[rank].Look(), Outcome::kDeclined);
}

TEST(RendezvousTest, WhoIsAskedDeclinesAndNobodyOffersBeforeAllHaveAnswered) {
  Ranks ranks(3);
  EXPECT_FALSE(ranks[1].IsAsked());
  ranks[0].Offer(3, kSignature, "");
  EXPECT_FALSE(ranks[0].IsAsked());
  EXPECT_TRUE(ranks[1].IsAsked());
  ranks[1].Decline();
  EXPECT_FALSE(ranks[1].IsAsked());
  EXPECT_EQ(ranks[0].Look(), Outcome::kDeclined);
  EXPECT_FALSE(ranks[0].CanOffer());
  EXPECT_FALSE(ranks[1].CanOffer());
  EXPECT_TRUE(ranks[2].IsAsked());
  ranks[2].Decline();
  EXPECT_TRUE(ranks[0].CanOffer());
}

TEST(RendezvousTest, WhoHasClosedDeclinesWhatItHasNotAnswered) {
  Ranks ranks(2);
  ranks.Offer(0, 3, 1);
  ranks.Offer(1, 3, 1);
  ranks[1].Close();
  EXPECT_FALSE(ranks[1].CanOffer());
  ranks.ExpectAgreed(0, 1);
  ASSERT_TRUE(ranks[0].CanOffer());
  ranks[0].Offer(3, kSignature, "");
  EXPECT_EQ(ranks[0].Look(), Outcome::kDeclined);
}

TEST(RendezvousTest, AnAnswerWakesWhoSleeps) {
  std::unique_ptr<Doorbell[]> bells(new Doorbell[2]());
  std::vector<char> memory(Rendezvous::Bytes(2, {}) + 64);
  char* aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  Rendezvous first(aligned, 0, {&bells[0], &bells[1]}, {});
  bells[1].SetAttention(Attention::kDataThreadAsleep);
  const uint32_t ticket = bells[1].Ticket();
  first.Offer(3, kSignature, "");
  EXPECT_NE(bells[1].Ticket(), ticket);
}

// All orders of all actions of the ranks, from each reachable state: every rank sees the same outcome of a round, each
// reads the others' offers in it, and no rank waits for one that cannot answer.
class Exploration {
 public:
  Exploration(int size, uint64_t rounds) : ranks_(size), rounds_(rounds) {}

  size_t Run() {
    Visit({ranks_.Save(), std::vector<Rank>(static_cast<size_t>(ranks_.size()))});
    return seen_.size();
  }

 private:
  struct Rank {
    uint64_t round = 0;
    bool is_open = false;  // its offer is
    bool has_closed = false;
    std::string outcomes;  // of the rounds that it has offered or declined: a, d, or "." where it has not looked
  };
  struct State {
    std::string memory;
    std::vector<Rank> ranks;
  };

  static std::string KeyOf(const State& state) {
    std::string key = state.memory;
    for (const Rank& rank : state.ranks) key += (rank.is_open ? 'o' : '-') + rank.outcomes + '|';
    return key;
  }

  void Check(const State& state) {
    bool is_stuck = false;
    for (size_t i = 0; i < state.ranks.size(); ++i) {
      const Rank& one = state.ranks[i];
      for (const Rank& other : state.ranks) {
        for (size_t round = 0; round < std::min(one.outcomes.size(), other.outcomes.size()); ++round) {
          if (one.outcomes[round] == '.' || other.outcomes[round] == '.') continue;
          ASSERT_EQ(one.outcomes[round], other.outcomes[round]) << "of round " << round + 1;
        }
      }
      if (!one.is_open || ranks_[static_cast<int>(i)].Look() != Outcome::kOpen) continue;
      is_stuck = true;
      for (size_t other = 0; other < state.ranks.size(); ++other) {
        if (other != i && !state.ranks[other].is_open && ranks_[static_cast<int>(other)].IsAsked()) is_stuck = false;
        if (state.ranks[other].is_open && ranks_[static_cast<int>(other)].Look() != Outcome::kOpen) is_stuck = false;
      }
      ASSERT_FALSE(is_stuck) << "rank " << i << " waits, and nobody is asked";
    }
  }

  void Visit(const State& state) {
    if (::testing::Test::HasFatalFailure() || !seen_.insert(KeyOf(state)).second) return;
    ranks_.Restore(state.memory);
    Check(state);
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      for (const char action : {'3', '4', 'd', 'c', 'l'}) {
        ranks_.Restore(state.memory);
        State next = state;
        if (!Act(rank, action, &next.ranks[rank])) continue;
        next.memory = ranks_.Save();
        Visit(next);
      }
    }
  }

  // False: the rank may not.
  bool Act(int rank, char action, Rank* state) {
    Rendezvous& end = ranks_[rank];
    switch (action) {
      case '3':
      case '4':
        if (state->is_open || state->round == rounds_ || !end.CanOffer()) return false;
        ranks_.Offer(rank, static_cast<uint32_t>(action - '0'), ++state->round);
        state->outcomes += '.';
        return state->is_open = true;
      case 'd':
        if (state->is_open || end.has_closed() || !end.IsAsked()) return false;
        end.Decline();
        ++state->round;
        state->outcomes += 'd';
        return true;
      case 'c':
        if (end.has_closed()) return false;
        end.Close();
        return true;
      default:
        break;
    }
    if (!state->is_open || end.Look() == Outcome::kOpen) return false;
    if (end.Look() == Outcome::kAgreed) ranks_.ExpectAgreed(rank, state->round);
    state->outcomes.back() = end.Look() == Outcome::kAgreed ? 'a' : 'd';
    state->is_open = false;
    return true;
  }

  Ranks ranks_;
  const uint64_t rounds_;
  std::set<std::string> seen_;
};

TEST(RendezvousTest, InEveryOrderOfEventsAllRanksSeeTheSameOutcome) {
  EXPECT_GT(Exploration(2, 4).Run(), 1000u);
  EXPECT_GT(Exploration(3, 2).Run(), 1000u);
}

// On threads, for the thread sanitizer: ranks offer one of two slots, or decline when asked.
TEST_P(RendezvousBytesTest, ThreadsReadWhatWasOfferedInTheRound) {
  constexpr int kSize = 3;
  const uint64_t kRounds = GetParam() < kLarge ? 20'000 : 3'000;
  Ranks ranks(kSize, GetParam());
  std::vector<std::vector<Outcome>> seen(kSize);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      std::mt19937 random(rank);
      Rendezvous& own = ranks[rank];
      for (uint64_t round = 1; round <= kRounds; ++round) {
        if (random() % 20 == 0) {
          while (!own.IsAsked() && !own.CanOffer()) std::this_thread::yield();
          if (own.IsAsked()) {
            own.Decline();
            seen[rank].push_back(Outcome::kDeclined);
            continue;
          }
        }
        while (!own.CanOffer()) std::this_thread::yield();
        ranks.Offer(rank, random() % 20 == 0 ? 4 : 3, round);
        while (own.Look() == Outcome::kOpen) std::this_thread::yield();
        seen[rank].push_back(own.Look());
        if (own.Look() == Outcome::kAgreed) ranks.ExpectAgreed(rank, round);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[0], seen[2]);
}

INSTANTIATE_TEST_SUITE_P(Bytes, RendezvousBytesTest, ::testing::Values(sizeof(uint64_t), kInlineBytes, kLarge));

TEST(RendezvousRoomTest, MoreRanksContributeLess) {
  EXPECT_EQ(RendezvousRoom::For(2).most_bytes, 16u << 10);
  EXPECT_EQ(RendezvousRoom::For(4).most_bytes, 8u << 10);
  EXPECT_EQ(RendezvousRoom::For(8).most_bytes, 4u << 10);
  EXPECT_EQ(RendezvousRoom::For(9).most_bytes, static_cast<size_t>(kInlineBytes));
  for (int size = 2; size <= 8; ++size) EXPECT_EQ(RendezvousRoom::For(size).most_bytes % 64, 0u);
  EXPECT_EQ(RendezvousRoom::For(9).BytesOfARank(), 0u);
  EXPECT_EQ(RendezvousRoom::For(1).BytesOfARank(), 0u) << "a rank alone meets nobody";
}

}  // namespace
}  // namespace farandole
