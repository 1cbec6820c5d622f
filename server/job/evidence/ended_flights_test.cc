#include "server/job/evidence/ended_flights.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "server/bytes/byte_ledger.h"

namespace farandole {
namespace {

constexpr uint32_t kSize = 2;

// Rank 0 has finished a tensor that no other rank has submitted.
v1::FlightRecords Finished(const std::string& name) {
  v1::FlightRecords flight;
  flight.add_names(name);
  flight.add_records()->set_ordinal(1);
  flight.mutable_records(0)->set_state(v1::FlightRecord::ENDED);
  flight.mutable_records(0)->set_ended_after_us(2'000'000);
  return flight;
}

class EndedFlightsTest : public testing::Test {
 protected:
  // Looks in both ways many times.
  void Look(int times) {
    for (int i = 0; i < times; ++i) {
      sentence_ = flights_.Judge(kSize, now_).sentence;
      cost_ = flights_.Survey(kSize, now_).costs(0).name();
    }
  }

  std::shared_ptr<ByteAccount> account_ = ByteLedger().Job("team", "mnist");
  EndedFlights flights_;
  absl::Time now_ = absl::UnixEpoch();
  std::string sentence_;
  std::string cost_;
};

TEST_F(EndedFlightsTest, AThousandLooksCostOneJudgementAndOneSurvey) {
  flights_.Keep(0, Finished("first"), account_);
  flights_.Keep(1, {}, account_);
  Look(1000);
  EXPECT_EQ(flights_.made(), 2u);
  now_ += absl::Hours(1);
  Look(1000);
  EXPECT_EQ(flights_.made(), 2u) << "nothing has changed";
  EXPECT_NE(sentence_.find("'first'"), std::string::npos) << sentence_;
  EXPECT_EQ(cost_, "first");
}

TEST_F(EndedFlightsTest, OtherRecordsOfTheSameRanksAreLookedAtOnceInTheDistance) {
  flights_.Keep(0, Finished("first"), account_);
  flights_.Keep(1, {}, account_);
  for (int i = 0; i < 100; ++i) {
    Look(1);
    flights_.Keep(0, Finished("second"), account_);
  }
  EXPECT_EQ(flights_.made(), 2u);
  EXPECT_EQ(cost_, "first");
  now_ += EndedFlights::kDistance;
  Look(1);
  EXPECT_EQ(flights_.made(), 4u);
  EXPECT_EQ(cost_, "second");
}

TEST_F(EndedFlightsTest, RecordsOfAnotherRankAreLookedAtAtOnce) {
  flights_.Keep(0, Finished("first"), account_);
  Look(1);
  flights_.Keep(1, {}, account_);
  Look(1);
  EXPECT_EQ(flights_.made(), 4u);
  EXPECT_EQ(flights_.by_rank().size(), 2u);
}

// A launcher decides how many ranks a call of it has.
TEST_F(EndedFlightsTest, RanksThatComeOneByOneCostFewJudgements) {
  constexpr uint32_t kRanks = 4096;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    flights_.Keep(rank, Finished("first"), account_);
    flights_.Judge(kRanks + 1, now_);
  }
  EXPECT_LE(flights_.made(), EndedFlights::kFew + 8);
  EXPECT_EQ(flights_.JudgesAt(), now_ + EndedFlights::kDistance) << "those since the last one are owed";
  flights_.Keep(kRanks, Finished("first"), account_);
  const uint64_t made = flights_.made();
  flights_.Judge(kRanks + 1, now_);
  EXPECT_EQ(flights_.made(), made + 1) << "all ranks are there";
  EXPECT_EQ(flights_.JudgesAt(), absl::InfiniteFuture());
}

TEST_F(EndedFlightsTest, ItsBytesAreChargedAndGoWithIt) {
  flights_.Keep(0, Finished("first"), account_);
  Look(1);
  const int64_t held = account_->held(ByteKind::kReports);
  EXPECT_GE(held, static_cast<int64_t>(Finished("first").SpaceUsedLong()));
  flights_.Keep(0, Finished("other"), account_);
  Look(1);
  EXPECT_EQ(account_->held(ByteKind::kReports), held);
  flights_.Clear();
  EXPECT_TRUE(flights_.empty());
  EXPECT_EQ(account_->held(ByteKind::kReports), 0);
}

TEST_F(EndedFlightsTest, WhatHasNoRoomIsLeftOut) {
  ByteLimits limits;
  limits.tenant_kept = 1 << 10;
  const std::shared_ptr<ByteAccount> small = ByteLedger(limits).Job("team", "mnist");
  flights_.Keep(0, Finished(std::string(2 << 10, 'n')), small);
  EXPECT_TRUE(flights_.empty());
  EXPECT_EQ(small->held(ByteKind::kReports), 0);
}

}  // namespace
}  // namespace farandole
