#include "server/diagnosis/measurements.h"

#include <limits>

#include "gtest/gtest.h"
#include "server/diagnosis/simulated_job.h"

namespace farandole {
namespace {

TEST(MeasurementsTest, ARingKeepsTheLastMinute) {
  SimulatedJob job(SimulatedJob::Plan{});
  job.Run(100);
  const Measurements& measured = job.measurements();
  const int64_t end = measured.EndBucket(job.now());
  EXPECT_GT(measured.In(3, end - 1).seconds, 0);
  EXPECT_GT(measured.In(3, end - 100).seconds, 0);
  EXPECT_EQ(measured.In(3, end - 125).seconds, 0);
  EXPECT_EQ(measured.In(3, end + 1).seconds, 0);
  EXPECT_NEAR(measured.Sum(3, end, 60).seconds, 30, 1);
  EXPECT_NEAR(measured.Total(3).seconds, 100, 1);
}

// The count is twice what a worker says that it waits, which may be anything.
TEST(MeasurementsTest, ASumLooksAtThoseThatAreKeptHoweverManyItIsAskedFor) {
  SimulatedJob job(SimulatedJob::Plan{});
  job.Run(100);
  const Measurements& measured = job.measurements();
  const int64_t end = measured.EndBucket(job.now());
  const auto all = static_cast<int64_t>(Measurements::kBuckets);
  EXPECT_NEAR(measured.Sum(3, end, all).seconds, 60, 1);
  EXPECT_EQ(measured.Sum(3, end, std::numeric_limits<int64_t>::max()).seconds, measured.Sum(3, end, all).seconds);
  EXPECT_EQ(measured.Sum(3, end, -1).seconds, 0);
  // Centuries later: a walk over the whole epoch would not end.
  EXPECT_EQ(measured.Sum(3, int64_t{1} << 60, int64_t{1} << 60).seconds, 0);
}

TEST(MeasurementsTest, EachTenSecondsGoToTheHistory) {
  SimulatedJob::Plan plan;
  plan.ranks = 2;
  plan.own = 0.9;
  plan.transfer = 0.1;
  plan.noise = 0;
  SimulatedJob job(plan);
  job.Run(1000);
  const auto past = job.history().ReadFinest(1);
  ASSERT_GE(past.size(), 99u);
  EXPECT_EQ(past.back().first - past.front().first + 1, static_cast<int64_t>(past.size()));
  EXPECT_NEAR(past.back().second.tenths, 100, 1);
  EXPECT_NEAR(past.back().second.transfer, 100, 10);
  EXPECT_NEAR(past.back().second.steps, 10, 1);
}

TEST(MeasurementsTest, TheSecondsThatAreNotOverGoToTheHistoryAtTheEnd) {
  MeasuredHistory history("measured/acme/train/", nullptr);
  const absl::Time start = SimulatedJob::TimeAt(0);
  history.Begin(1, {}, {}, start, absl::ZeroDuration());
  Measurements measured({0, 0}, nullptr, &history, start);
  v1::Heartbeat beat;
  beat.add_pulses()->set_rank(0);
  beat.add_pulses()->set_rank(1);
  beat.mutable_measures()->set_interval_us(500'000);
  beat.mutable_measures()->add_waited_us(250'000);
  beat.mutable_measures()->add_waited_us(0);
  beat.mutable_measures()->set_received_bytes(1'000'000);
  beat.mutable_measures()->set_sent_bytes(500'000);
  beat.mutable_measures()->set_retransmits(2);
  for (int i = 1; i <= 5; ++i) measured.Take(beat, start + i * absl::Milliseconds(500));
  EXPECT_TRUE(history.ranks.Read(1, 0).empty());
  measured.Close();
  ASSERT_EQ(history.ranks.Read(1, 0).size(), 1u);
  EXPECT_EQ(history.ranks.Read(1, 0)[0].value.tenths, 25);
  EXPECT_EQ(history.ranks.Read(1, 0)[0].value.waited, 500);
  ASSERT_EQ(history.hosts.Read(1, 0).size(), 1u);
  const NetworkRollUp traffic = history.hosts.Read(1, 0)[0].value;
  EXPECT_EQ(traffic.tenths, 25);
  EXPECT_FLOAT_EQ(traffic.received, 2e6f);
  EXPECT_FLOAT_EQ(traffic.sent, 1e6f);
  EXPECT_EQ(traffic.retransmits, 10u);
  measured.Close();
  EXPECT_EQ(history.ranks.Read(1, 0).size(), 1u);
}

TEST(MeasurementsTest, TheMostOfAHalfSecondIsKept) {
  SimulatedJob::Plan plan;
  plan.ranks = 2;
  plan.work = [](int rank, double now, double base) {
    return SimulatedJob::Work{rank == 0 && now > 13 && now < 14 ? 2 : base, 1};
  };
  SimulatedJob job(plan);
  job.Run(31);
  const auto past = job.history().ReadFinest(1);
  ASSERT_GE(past.size(), 2u);
  EXPECT_LT(past[0].second.most_waited, 200);
  EXPECT_GT(past[1].second.most_waited, 900);
  EXPECT_LT(past[1].second.waited, 300);
}

TEST(MeasurementsTest, WithoutMemoryOnlySumsAreKept) {
  MemoryBudget budget(1000);
  SimulatedJob job(SimulatedJob::Plan{}, &budget);
  job.Run(10);
  EXPECT_FALSE(job.measurements().is_kept());
  EXPECT_TRUE(job.history().ReadFinest(1).empty());
  EXPECT_TRUE(job.Decide().blockers.empty());
  EXPECT_NEAR(job.Totals().seconds, 10, 1);
  EXPECT_EQ(budget.left(), 1000);
}

TEST(MeasurementsTest, StepsASecondAreThoseOfTheLastHalfMinuteAlsoWithoutRings) {
  MemoryBudget none(1000);
  for (MemoryBudget* budget : {static_cast<MemoryBudget*>(nullptr), &none}) {
    SimulatedJob::Plan plan;
    plan.own = 0.1;
    plan.noise = 0;
    plan.transfer = 0;
    plan.work = [](int, double now, double base) { return SimulatedJob::Work{now < 60 ? base : 4 * base, 1}; };
    SimulatedJob job(plan, budget);
    EXPECT_FALSE(job.measurements().StepsPerSecond().has_value());
    job.Run(1);
    EXPECT_NEAR(job.measurements().StepsPerSecond().value_or(0), 10, 2);
    job.Run(59);
    EXPECT_NEAR(job.measurements().StepsPerSecond().value_or(0), 10, 0.2);
    job.Run(15);
    EXPECT_NEAR(job.measurements().StepsPerSecond().value_or(0), 6.25, 0.3) << "half of it is slow";
    job.Run(25);
    EXPECT_NEAR(job.measurements().StepsPerSecond().value_or(0), 2.5, 0.1);
    job.Stand({1}, 40);
    EXPECT_EQ(job.measurements().StepsPerSecond(), 0) << "it stands still";
    EXPECT_EQ(job.measurements().is_kept(), budget == nullptr);
  }
}

TEST(MeasurementsTest, TheMemoryIsGivenBackWithTheEpoch) {
  MemoryBudget budget(1 << 20);
  {
    SimulatedJob job(SimulatedJob::Plan{}, &budget);
    EXPECT_EQ(budget.left(), 1 << 20);
    job.Run(1);
    EXPECT_TRUE(job.measurements().is_kept());
    // Some 4 kB a rank.
    EXPECT_LT(budget.left(), (1 << 20) - 8 * 3000);
    EXPECT_GT(budget.left(), (1 << 20) - 8 * 5000);
  }
  EXPECT_EQ(budget.left(), 1 << 20);
}

TEST(MeasurementsTest, AHeartbeatWithoutMeasuresChangesNothing) {
  MeasuredHistory history("measured/acme/train/", nullptr);
  history.Begin(1, {}, {}, SimulatedJob::TimeAt(0), absl::ZeroDuration());
  Measurements measured({0, 0}, nullptr, &history, SimulatedJob::TimeAt(0));
  v1::Heartbeat beat;
  beat.add_pulses()->set_rank(1);
  measured.Take(beat, SimulatedJob::TimeAt(1));
  EXPECT_FALSE(measured.is_kept());
  // Columns may be empty.
  beat.mutable_measures()->set_interval_us(500'000);
  measured.Take(beat, SimulatedJob::TimeAt(1));
  EXPECT_EQ(measured.Total(1).waited, 0);
  EXPECT_EQ(measured.Total(1).seconds, 0.5);
}

}  // namespace
}  // namespace farandole
