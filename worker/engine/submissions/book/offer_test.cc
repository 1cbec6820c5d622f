#include "worker/engine/submissions/book/offer.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/transport/shm/arena.h"

namespace farandole {
namespace {

constexpr RendezvousRoom kRoom = {4096, 2};

// Two ranks over one rendezvous; the test's rank is 0.
class OfferTest : public ::testing::Test {
 protected:
  OfferTest()
      : memory_(Rendezvous::Bytes(2, kRoom) / sizeof(Line) + 1),
        own_(memory_.data(), 0, {&bells_[0], &bells_[1]}, kRoom),
        other_(memory_.data(), 1, {&bells_[0], &bells_[1]}, kRoom),
        offer_(&own_, &arenas_) {
    name_.slot = 7;
    submission_.count = 1;
    submission_.signature = 5;
    submission_.fragments.push_back({&value_, &value_, 1});
  }

  struct alignas(64) Line {
    char bytes[64] = {};
  };
  std::vector<Line> memory_;
  Doorbell bells_[2] = {};
  Rendezvous own_;
  Rendezvous other_;
  ArenaTable arenas_;
  Offer offer_;
  NameTable::Name name_;
  float value_ = 2.0f;
  Submission submission_;
};

TEST_F(OfferTest, AnAgreedRoundWritesTheResult) {
  ASSERT_TRUE(offer_.MayOpen(submission_, name_));
  offer_.Open(&submission_, &name_, 0);
  EXPECT_TRUE(offer_.is_open());
  EXPECT_EQ(offer_.submission(), &submission_);
  EXPECT_EQ(submission_.slot, 7u);
  const float contribution = 40.0f;
  other_.Offer(7, 5, {reinterpret_cast<const char*>(&contribution), sizeof(contribution)});
  ASSERT_EQ(own_.Look(), Rendezvous::Outcome::kAgreed);
  EXPECT_EQ(offer_.CloseAgreed(), &submission_);
  EXPECT_EQ(value_, 42.0f);
  EXPECT_FALSE(offer_.is_open());
  EXPECT_EQ(offer_.submission(), nullptr);
  EXPECT_EQ(offer_.name(), &name_);
}

// Of a size that lies apart from its description: each tensor gets its part of the result.
TEST_F(OfferTest, SeveralTensorsAreReducedEachWhereItLies) {
  std::vector<float> first(300, 1.0f);
  std::vector<float> second(500, 2.0f);
  submission_.fragments.clear();
  submission_.fragments.push_back({first.data(), first.data(), 300});
  submission_.fragments.push_back({second.data(), second.data(), 500});
  submission_.count = 800;
  for (int round = 1; round <= 5; ++round) {
    ASSERT_TRUE(offer_.MayOpen(submission_, name_));
    offer_.Open(&submission_, &name_, 0);
    std::vector<float> contribution(800);
    for (size_t i = 0; i < contribution.size(); ++i) contribution[i] = static_cast<float>(i);
    std::memcpy(other_.Place(), contribution.data(), contribution.size() * sizeof(float));
    other_.Offer(7, 5, "");
    ASSERT_EQ(own_.Look(), Rendezvous::Outcome::kAgreed);
    offer_.CloseAgreed();
    for (size_t i = 0; i < first.size(); ++i) ASSERT_EQ(first[i], 1.0f + static_cast<float>(round * i));
    for (size_t i = 0; i < second.size(); ++i) ASSERT_EQ(second[i], 2.0f + static_cast<float>(round * (300 + i)));
  }
}

TEST_F(OfferTest, LargeTensorsInAnArenaAreReducedThere) {
  absl::StatusOr<std::unique_ptr<EpochMemory>> memory = EpochMemory::Create(Arena::Bytes(2, 4096));
  ASSERT_TRUE(memory.ok()) << memory.status();
  const auto arena = std::make_shared<const Arena>(3, std::shared_ptr<EpochMemory>(*std::move(memory)),
                                                   std::vector<int>{0, 1}, 0, 4096);
  arenas_.Add(arena);
  submission_.fragments[0] = {arena->data(), arena->data(), 1};
  EXPECT_TRUE(offer_.MayOpen(submission_, name_));
  submission_.fragments[0].count = submission_.count = 1000;
  EXPECT_FALSE(offer_.MayOpen(submission_, name_));
  for (const OpType op : {OpType::kBroadcast, OpType::kReducescatter}) {
    submission_.op = op;
    EXPECT_TRUE(offer_.MayOpen(submission_, name_)) << "arenas are for allreduces";
  }
  submission_.op = OpType::kAllreduce;
  std::vector<float> elsewhere(1000);
  submission_.fragments[0] = {elsewhere.data(), elsewhere.data(), 1000};
  EXPECT_TRUE(offer_.MayOpen(submission_, name_));
}

TEST_F(OfferTest, ADeclinedRoundLeavesTheTensorAndPausesOffers) {
  offer_.Open(&submission_, &name_, 0);
  ASSERT_TRUE(other_.IsAsked());
  other_.Decline();
  ASSERT_EQ(own_.Look(), Rendezvous::Outcome::kDeclined);
  EXPECT_EQ(offer_.CloseDeclined(), &submission_);
  EXPECT_EQ(value_, 2.0f);
  EXPECT_FALSE(offer_.MayOpen(submission_, name_));
  EXPECT_TRUE(offer_.MayOpen(submission_, name_));
}

TEST_F(OfferTest, ARankWithoutAnOfferDeclinesOthersOnce) {
  EXPECT_FALSE(offer_.Decline());
  other_.Offer(7, 5, "");
  EXPECT_TRUE(offer_.Decline());
  EXPECT_FALSE(offer_.Decline());
  EXPECT_EQ(other_.Look(), Rendezvous::Outcome::kDeclined);
}

TEST_F(OfferTest, OnlySmallSubmissionsOfAllRanksWithASlotAreOffered) {
  NameTable::Name unknown;
  EXPECT_FALSE(offer_.MayOpen(submission_, unknown));
  submission_.group = 3;
  EXPECT_FALSE(offer_.MayOpen(submission_, name_));
  submission_.group = 0;
  submission_.states_group = true;
  EXPECT_FALSE(offer_.MayOpen(submission_, name_));
  submission_.states_group = false;
  submission_.count = kRoom.most_bytes / sizeof(float);
  EXPECT_TRUE(offer_.MayOpen(submission_, name_));
  submission_.reduce_op = ReduceOp::kAdasum;
  EXPECT_FALSE(offer_.MayOpen(submission_, name_));
  submission_.reduce_op = ReduceOp::kSum;
  ++submission_.count;
  EXPECT_FALSE(offer_.MayOpen(submission_, name_));
  Offer alone(nullptr);
  submission_.count = 1;
  EXPECT_FALSE(alone.MayOpen(submission_, name_));
  EXPECT_TRUE(offer_.MayOpen(submission_, name_));
}

// How many calls pass until the rank may offer again.
int Length(OfferPause* pause) {
  int calls = 0;
  while (!pause->IsOver()) ++calls;
  return calls;
}

TEST(OfferPauseTest, DeclinedRoundsInARowDoubleThePauseUpToABound) {
  OfferPause pause;
  EXPECT_EQ(Length(&pause), 0);
  for (const int calls : {1, 3, 7, 15, 31, 63, 63}) {
    pause.CountDeclined();
    EXPECT_EQ(Length(&pause), calls);
  }
  pause.CountAgreed();
  pause.CountDeclined();
  EXPECT_EQ(Length(&pause), 1);
}

}  // namespace
}  // namespace farandole
