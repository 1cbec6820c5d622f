#include "server/job/evidence/collective_survey.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using State = v1::FlightRecord::State;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CollectiveSurveyTest : public testing::Test {
 protected:
  struct Record {
    std::string name;
    uint32_t ordinal = 1;
    uint64_t waited_us = 0;
    // 0: without a batch.
    uint64_t batch = 0;
    uint64_t moving_us = 0;
    uint64_t bytes = 4;
    State state = v1::FlightRecord::FINISHED;
    v1::OpType op = v1::OP_TYPE_ALLREDUCE;
    uint32_t group = 0;
  };
  void Add(uint32_t rank, const Record& record) {
    v1::FlightRecords& flight = flights_[rank];
    flight.add_names(record.name);
    v1::FlightRecord* const added = flight.add_records();
    added->set_name(static_cast<uint32_t>(flight.names_size() - 1));
    added->set_ordinal(record.ordinal);
    added->set_state(record.state);
    added->set_op(record.op);
    added->set_bytes(record.bytes);
    added->set_group(record.group);
    added->set_age_us(record.waited_us + record.moving_us);
    if (record.state == v1::FlightRecord::SUBMITTED) return;
    added->set_batch(record.batch);
    if (record.batch != 0) added->set_started_after_us(record.waited_us);
    if (record.state != v1::FlightRecord::STARTED) added->set_ended_after_us(record.waited_us + record.moving_us);
  }
  v1::NameTimes* AddTimes(uint32_t rank, const std::string& name, uint64_t finished, uint64_t waited_us) {
    v1::NameTimes* const times = flights_[rank].add_times();
    times->set_name(name);
    times->set_finished(finished);
    times->set_waited_us(waited_us);
    return times;
  }
  v1::SurveyCollectivesResponse Survey(uint32_t size) const { return SurveyCollectives(flights_, size); }
  v1::CollectiveCost CostOf(const std::string& name, uint32_t size) const {
    const v1::SurveyCollectivesResponse survey = Survey(size);
    for (const v1::CollectiveCost& cost : survey.costs()) {
      if (cost.name() == name) return cost;
    }
    ADD_FAILURE() << "no " << name;
    return {};
  }
  static std::vector<std::string> Names(const v1::SurveyCollectivesResponse& survey) {
    std::vector<std::string> names;
    for (const v1::CollectiveCost& cost : survey.costs()) names.push_back(cost.name());
    return names;
  }

  std::map<uint32_t, v1::FlightRecords> flights_;
};

TEST_F(CollectiveSurveyTest, TheRankThatWaitsLeastCameLast) {
  for (uint32_t ordinal = 1; ordinal <= 10; ++ordinal) {
    const uint32_t late = ordinal <= 7 ? 2 : 0;
    for (uint32_t rank = 0; rank < 3; ++rank)
      Add(rank, {"late", ordinal, rank == late ? 3u : 50'000u + rank, ordinal, 100});
  }
  const v1::CollectiveCost cost = CostOf("late", 3);
  EXPECT_EQ(cost.compared(), 10u);
  ASSERT_EQ(cost.last_size(), 2);
  EXPECT_EQ(cost.last(0).rank(), 2u);
  EXPECT_EQ(cost.last(0).times(), 7u);
  EXPECT_EQ(cost.last(1).times(), 3u);
  EXPECT_EQ(cost.count(), 10u);
  EXPECT_EQ(cost.longest_wait_us(), 50'002u);
  EXPECT_EQ(cost.longest_wait_rank(), 2u);
  EXPECT_NEAR(cost.mean_wait_us(), 33'334, 2);
}

TEST_F(CollectiveSurveyTest, RanksThatComeWithinTenMicrosecondsComeTogether) {
  for (uint32_t rank = 0; rank < 2; ++rank) Add(rank, {"t", 1, 9 * rank});
  EXPECT_EQ(CostOf("t", 2).compared(), 1u);
  EXPECT_THAT(CostOf("t", 2).last(), IsEmpty());
}

TEST_F(CollectiveSurveyTest, WhereTheLateRankWasNotAskedNoneIsBlamed) {
  for (uint32_t rank = 0; rank < 2; ++rank) Add(rank, {"t", 1, 50'000 + 400 * rank});
  EXPECT_EQ(CostOf("t", 256).compared(), 1u);
  EXPECT_THAT(CostOf("t", 256).last(), IsEmpty());
}

TEST_F(CollectiveSurveyTest, OnlyWhatAllRanksHaveOnRecordIsCompared) {
  Add(0, {"t", 1, 1000});
  Add(0, {"t", 2, 1000});
  Add(1, {"t", 2, 0});
  Add(1, {"t", 3, 0, 0, 0, 4, v1::FlightRecord::FAILED});
  Add(0, {"t", 3, 0, 0, 0, 4, v1::FlightRecord::FAILED});
  EXPECT_EQ(CostOf("t", 2).compared(), 1u);
  EXPECT_EQ(CostOf("t", 2).last(0).rank(), 1u);
}

TEST_F(CollectiveSurveyTest, BandwidthIsByTheConventionOfNcclTests) {
  const struct {
    v1::OpType op;
    // Of 4 ranks with a million bytes each in a millisecond: 1e9 bytes/s for a rank's input.
    double algorithm;
    double bus;
  } cases[] = {{v1::OP_TYPE_ALLREDUCE, 1e9, 1.5e9},      {v1::OP_TYPE_ALLGATHER, 4e9, 3e9},
               {v1::OP_TYPE_REDUCESCATTER, 1e9, 0.75e9}, {v1::OP_TYPE_ALLTOALL, 1e9, 0.75e9},
               {v1::OP_TYPE_BROADCAST, 1e9, 1e9},        {v1::OP_TYPE_GATHER, 4e9, 3e9},
               {v1::OP_TYPE_SCATTER, 1e9, 0.75e9}};
  for (const auto& one : cases) {
    flights_.clear();
    for (uint32_t rank = 0; rank < 4; ++rank) {
      v1::NameTimes* const times = AddTimes(rank, "t", 10, 0);
      times->set_op(one.op);
      times->set_bytes(10'000'000);
      times->set_moved(10);
      times->set_moved_bytes(10'000'000);
      times->set_moving_us(10'000);
    }
    const v1::CollectiveCost cost = CostOf("t", 4);
    EXPECT_DOUBLE_EQ(cost.algorithm_bytes_per_second(), one.algorithm) << one.op;
    EXPECT_DOUBLE_EQ(cost.bus_bytes_per_second(), one.bus) << one.op;
    EXPECT_EQ(cost.bytes(), one.algorithm > 1e9 ? 4'000'000u : 1'000'000u);
  }
}

TEST_F(CollectiveSurveyTest, SmallOnesAndThoseOnGpusHaveNoBandwidth) {
  Add(0, {"small", 1, 5});
  v1::NameTimes* const times = AddTimes(0, "gpu", 10, 0);
  times->set_is_on_gpu(true);
  times->set_moved(10);
  times->set_moved_bytes(1000);
  times->set_moving_us(7);
  EXPECT_EQ(CostOf("small", 1).algorithm_bytes_per_second(), 0);
  EXPECT_EQ(CostOf("small", 1).moving_us(), 0u);
  EXPECT_EQ(CostOf("gpu", 1).algorithm_bytes_per_second(), 0);
}

TEST_F(CollectiveSurveyTest, TheSumsOfTheEpochCountAndRecordsSayWhoCameLast) {
  for (uint32_t rank = 0; rank < 2; ++rank) {
    AddTimes(rank, "t", 1000, rank == 1 ? 2'000 : 900'000);
    Add(rank, {"t", 1000, rank == 1 ? 0u : 900u});
  }
  const v1::CollectiveCost cost = CostOf("t", 2);
  EXPECT_EQ(cost.count(), 1000u);
  EXPECT_EQ(cost.waited_us(), 902'000u);
  EXPECT_EQ(cost.last(0).rank(), 1u);
  EXPECT_EQ(cost.least_wait_rank(), 1u);
  EXPECT_DOUBLE_EQ(cost.least_wait_us(), 2);
  EXPECT_DOUBLE_EQ(cost.mean_wait_us(), 451);
}

TEST_F(CollectiveSurveyTest, AWaitThatGoesOnCounts) {
  AddTimes(0, "t", 4, 0);
  Add(0, {"t", 5, 3'000'000, 0, 0, 4, v1::FlightRecord::SUBMITTED});
  AddTimes(1, "t", 4, 0);
  AddTimes(1, "u", 4, 50);
  const v1::SurveyCollectivesResponse survey = Survey(2);
  EXPECT_THAT(Names(survey), ElementsAre("t", "u"));
  EXPECT_EQ(survey.costs(0).longest_wait_us(), 3'000'000u);
  EXPECT_EQ(survey.costs(0).waited_us(), 3'000'000u);
  EXPECT_NEAR(survey.costs(0).wait_percent(), 100, 0.01);
  EXPECT_EQ(survey.waited_us(), 3'000'050u);
}

TEST_F(CollectiveSurveyTest, ABatchIsSharedOutByBytesWhereOnlyRecordsAreKnown) {
  Add(0, {"large", 1, 0, 7, 1000, 3'000'000});
  Add(0, {"less", 1, 0, 7, 1000, 1'000'000});
  EXPECT_EQ(CostOf("large", 1).moving_us(), 750u);
  EXPECT_EQ(CostOf("less", 1).moving_us(), 250u);
  EXPECT_DOUBLE_EQ(CostOf("less", 1).algorithm_bytes_per_second(), 4e9);
}

TEST_F(CollectiveSurveyTest, GroupsAreApartAndHaveTheirOwnRanks) {
  for (uint32_t rank = 0; rank < 4; ++rank) Add(rank, {"t", 1, 1});
  for (uint32_t rank = 2; rank < 4; ++rank) {
    Record record{"t", 1, rank == 3 ? 0u : 5'000u, 9, 1000, 1'000'000};
    record.group = 5;
    Add(rank, record);
  }
  const v1::SurveyCollectivesResponse survey = Survey(4);
  ASSERT_EQ(survey.costs_size(), 2);
  EXPECT_EQ(survey.costs(0).group(), 5u);
  EXPECT_EQ(survey.costs(0).compared(), 1u);
  EXPECT_EQ(survey.costs(0).last(0).rank(), 3u);
  // Two ranks: the bus carries what the algorithm does.
  EXPECT_DOUBLE_EQ(survey.costs(0).bus_bytes_per_second(), 1e9);
}

TEST_F(CollectiveSurveyTest, TheSixtyFourDearestAreShown) {
  for (int i = 0; i < 100; ++i) AddTimes(0, "t" + std::to_string(i), 1, static_cast<uint64_t>(i));
  flights_[0].set_times_left_out(3);
  const v1::SurveyCollectivesResponse survey = Survey(1);
  EXPECT_EQ(survey.costs_size(), 64);
  EXPECT_EQ(survey.costs(0).name(), "t99");
  EXPECT_EQ(survey.costs(63).name(), "t36");
  EXPECT_EQ(survey.found(), 100u);
  EXPECT_EQ(survey.left_out(), 3u);
}

TEST_F(CollectiveSurveyTest, WhatNoRankCanHaveIsLeftOut) {
  AddTimes(7, "far", 1, 1);
  Add(0, {"join", 1, 1, 0, 0, 0, v1::FlightRecord::FINISHED, v1::OP_TYPE_JOIN});
  flights_[0].add_records()->set_name(17);
  EXPECT_THAT(Names(Survey(2)), IsEmpty());
  EXPECT_EQ(Survey(2).answered(), 1u);
  EXPECT_THAT(Names(SurveyCollectives({}, 4)), IsEmpty());
}

}  // namespace
}  // namespace farandole
