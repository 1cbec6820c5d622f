#include "server/diagnosis/judge.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/diagnosis/simulated_job.h"

namespace farandole {
namespace {

using Plan = SimulatedJob::Plan;
using Work = SimulatedJob::Work;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(JudgeTest, ARankThatComputesLongerIsSlowCompute) {
  Plan plan;
  plan.work = [](int rank, double, double base) { return Work{rank == 5 ? 1.8 * base : base, 1}; };
  SimulatedJob job(plan);
  job.Run(60);
  const Diagnosis diagnosis = job.Decide();
  ASSERT_EQ(diagnosis.blockers.size(), 1u);
  const Blocker& blocker = diagnosis.blockers[0];
  EXPECT_EQ(blocker.cause, Cause::kSlowCompute);
  EXPECT_EQ(blocker.rank, 5u);
  // Steps take 0.19 s, of which the others wait 0.08 s.
  EXPECT_NEAR(blocker.lost_seconds_a_minute, 60 * 0.08 / 0.19, 1);
  EXPECT_NEAR(blocker.percent, 100 * 0.08 / 0.19 * 7 / 8, 2);
  EXPECT_NEAR(blocker.own_ratio, 1.8, 0.05);
  EXPECT_EQ(blocker.last_steps, blocker.steps);
  EXPECT_THAT(blocker.sentence, StartsWith("rank 5 (node-0) was last in 15"));
  EXPECT_THAT(blocker.sentence, HasSubstr(" steps; the others waited 25."));
  EXPECT_THAT(blocker.sentence,
              HasSubstr(" s a minute for it; its own time is 1.8 x the median, CPU busy (100 %): slow compute"));
  EXPECT_NEAR(diagnosis.shares.waited, 0.08 / 0.19 * 7 / 8, 0.02);
  EXPECT_NEAR(diagnosis.shares.transfer, 0.01 / 0.19, 0.01);
  // Steps of 0.19 s, which would take 0.12 s if all eight ranks had 0.11 s of work.
  EXPECT_NEAR(diagnosis.shares.Slowdown(), 0.19 / 0.12, 0.05);
  EXPECT_NEAR(diagnosis.least_own_a_step, 0.1, 0.01);
}

TEST(JudgeTest, ARankThatSleepsForItsInputIsLate) {
  for (const int ranks : {2, 3, 8}) {
    Plan plan;
    plan.ranks = ranks;
    plan.work = [](int rank, double, double base) { return rank == 1 ? Work{2 * base, 0.3} : Work{base, 1}; };
    SimulatedJob job(plan);
    job.Run(20);
    const Diagnosis diagnosis = job.Decide();
    ASSERT_EQ(diagnosis.blockers.size(), 1u) << ranks;
    EXPECT_EQ(diagnosis.blockers[0].cause, Cause::kLate);
    EXPECT_EQ(diagnosis.blockers[0].rank, 1u);
    EXPECT_THAT(diagnosis.blockers[0].sentence, HasSubstr("CPU idle (30 %): late, as for its input"));
  }
}

TEST(JudgeTest, RankZeroIsJudgedByWhatTheOthersWait) {
  Plan plan;
  plan.ranks = 4;
  plan.work = [](int rank, double, double base) { return Work{rank == 0 ? 1.5 * base : base, 1}; };
  SimulatedJob job(plan);
  job.Run(30);
  const Diagnosis diagnosis = job.Decide();
  ASSERT_EQ(diagnosis.blockers.size(), 1u);
  EXPECT_EQ(diagnosis.blockers[0].cause, Cause::kSlowCompute);
  EXPECT_EQ(diagnosis.blockers[0].rank, 0u);
}

TEST(JudgeTest, AnOldFaultIsSaidToBeAsOldAsItIs) {
  for (const double onset : {0.0, 600.0, 5000.0}) {
    Plan plan;
    plan.ranks = 4;
    plan.own = 0.5;
    plan.work = [onset](int rank, double now, double base) {
      return Work{rank == 1 && now >= onset ? 1.5 * base : base, 1};
    };
    SimulatedJob job(plan);
    job.Run(onset + 1200);
    const Diagnosis diagnosis = job.Decide();
    ASSERT_EQ(diagnosis.blockers.size(), 1u) << onset;
    EXPECT_EQ(diagnosis.blockers[0].rank, 1u);
    EXPECT_NEAR(absl::ToDoubleSeconds(diagnosis.blockers[0].since - SimulatedJob::TimeAt(onset)), 0, 15) << onset;
  }
}

TEST(JudgeTest, AGpuSaysMoreThanTheCpu) {
  Plan plan;
  plan.work = [](int rank, double, double base) { return Work{rank == 5 ? 1.8 * base : base, 1}; };
  SimulatedJob job(plan);
  job.SetGpuBusy(5, 0.2);
  job.Run(30);
  ASSERT_EQ(job.Decide().blockers.size(), 1u);
  EXPECT_EQ(job.Decide().blockers[0].cause, Cause::kLate);
  EXPECT_THAT(job.Decide().blockers[0].sentence, HasSubstr("GPU idle (20 %): late"));
  job.SetGpuBusy(5, 0.9);
  EXPECT_EQ(job.Decide().blockers[0].cause, Cause::kSlowCompute);
}

TEST(JudgeTest, RankZeroThatValidatesIsLateAndNotSlow) {
  Plan plan;
  plan.ranks = 4;
  double validated = 0;
  plan.work = [&validated](int rank, double now, double base) {
    if (rank != 0 || now < validated + 12) return Work{base, 1};
    validated = now;
    return Work{3, 1};
  };
  SimulatedJob job(plan);
  job.Run(40);
  const Diagnosis diagnosis = job.Decide();
  ASSERT_EQ(diagnosis.blockers.size(), 1u);
  EXPECT_EQ(diagnosis.blockers[0].cause, Cause::kLate);
  EXPECT_EQ(diagnosis.blockers[0].rank, 0u);
  EXPECT_THAT(diagnosis.blockers[0].sentence, HasSubstr("late, as for a validation, a checkpoint"));
}

TEST(JudgeTest, AProcessThatStandsStillIsNamedSo) {
  Plan plan;
  plan.ranks = 3;
  double stopped = 0;
  SimulatedJob* running = nullptr;
  plan.work = [&](int rank, double now, double base) {
    if (rank != 2 || now < stopped + 4) return Work{base, 1};
    stopped = now;
    running->Silence(2, 1.5);
    return Work{1.6, 0.1};
  };
  SimulatedJob job(plan);
  running = &job;
  job.Run(30);
  const Diagnosis diagnosis = job.Decide();
  ASSERT_EQ(diagnosis.blockers.size(), 1u);
  EXPECT_EQ(diagnosis.blockers[0].cause, Cause::kLate);
  EXPECT_EQ(diagnosis.blockers[0].rank, 2u);
  EXPECT_THAT(diagnosis.blockers[0].sentence, HasSubstr("its process stood still for up to 1.5 s"));
}

// Of a stop of 1.4 s one half second may be without any step, or two: it depends on when it begins. A machine with
// other work makes the rank a little late at other times, too.
TEST(JudgeTest, AProcessThatIsStoppedNowAndThenIsNamedSoWhereverItsStopsBegin) {
  for (int phase = 0; phase < 10; ++phase) {
    for (const double more : {1.0, 1.3}) {
      Plan plan;
      plan.ranks = 3;
      plan.own = 0.01;
      plan.transfer = 0.001;
      double next = 3 + 0.05 * phase;
      SimulatedJob* running = nullptr;
      plan.work = [&](int rank, double now, double base) {
        if (rank != 2 || now < next) return Work{rank == 2 ? more * base : base, 0.1};
        next += 3;
        running->Silence(2, 1.3);
        return Work{1.4, 0};
      };
      SimulatedJob job(plan);
      running = &job;
      job.Run(30);
      const Diagnosis diagnosis = job.Decide();
      ASSERT_EQ(diagnosis.blockers.size(), 1u) << phase;
      EXPECT_EQ(diagnosis.blockers[0].cause, Cause::kLate);
      EXPECT_EQ(diagnosis.blockers[0].rank, 2u);
      EXPECT_THAT(diagnosis.blockers[0].sentence, HasSubstr("its process stood still for up to")) << phase;
    }
  }
}

TEST(JudgeTest, SeveralSlowRanksShareThePrice) {
  Plan plan;
  plan.work = [](int rank, double, double base) { return Work{rank == 2 || rank == 6 ? 2 * base : base, 1}; };
  SimulatedJob job(plan);
  job.Run(30);
  const Diagnosis diagnosis = job.Decide();
  ASSERT_EQ(diagnosis.blockers.size(), 2u);
  EXPECT_EQ(diagnosis.blockers[0].cause, Cause::kSlowCompute);
  EXPECT_LE(diagnosis.blockers[0].percent + diagnosis.blockers[1].percent, 100 * diagnosis.shares.waited + 0.01);
}

TEST(JudgeTest, TheOnsetIsFound) {
  Plan plan;
  plan.work = [](int rank, double now, double base) { return Work{rank == 3 && now > 40 ? 1.6 * base : base, 1}; };
  SimulatedJob job(plan);
  job.Run(59);
  const Diagnosis diagnosis = job.Decide();
  ASSERT_EQ(diagnosis.blockers.size(), 1u);
  EXPECT_NEAR(absl::ToDoubleSeconds(diagnosis.blockers[0].since - SimulatedJob::TimeAt(40)), 0, 1.5);
}

TEST(JudgeTest, RanksThatWaitForOneInAStandstillNameIt) {
  Plan plan;
  plan.ranks = 4;
  SimulatedJob job(plan);
  job.Run(20);
  job.Stand({2}, 7);
  const Diagnosis diagnosis = job.Decide();
  ASSERT_EQ(diagnosis.blockers.size(), 1u);
  EXPECT_EQ(diagnosis.blockers[0].cause, Cause::kLate);
  EXPECT_EQ(diagnosis.blockers[0].rank, 2u);
  EXPECT_THAT(diagnosis.blockers[0].sentence, StartsWith("rank 2 (node-0) keeps 3 ranks waiting, now for "));
}

TEST(JudgeTest, ARankThatWaitsElsewhereHasSkippedACollective) {
  Plan plan;
  plan.ranks = 4;
  SimulatedJob job(plan);
  job.Run(20);
  job.SetSlot(1, 7);
  job.Stand({}, 6);
  const Diagnosis diagnosis = job.Decide();
  ASSERT_EQ(diagnosis.blockers.size(), 1u);
  EXPECT_EQ(diagnosis.blockers[0].cause, Cause::kSkipped);
  EXPECT_EQ(diagnosis.blockers[0].rank, 1u);
  EXPECT_THAT(diagnosis.blockers[0].sentence, HasSubstr("waits in 'tensor 7' for "));
  EXPECT_THAT(diagnosis.blockers[0].sentence, HasSubstr("while 3 others wait in 'tensor 1': skipped"));
}

TEST(JudgeTest, TheSectionInWhichALateRankLosesItsTimeIsNamed) {
  for (const int ranks : {2, 8}) {
    Plan plan;
    plan.ranks = ranks;
    plan.marks = true;
    plan.work = [](int rank, double, double base) {
      return rank == 1 ? Work{base + 0.298, 0.3, 0.31} : Work{base, 1, 0.012};
    };
    SimulatedJob job(plan);
    job.Run(30);
    const Diagnosis diagnosis = job.Decide();
    ASSERT_EQ(diagnosis.blockers.size(), 1u);
    EXPECT_EQ(diagnosis.blockers[0].cause, Cause::kLate);
    EXPECT_EQ(diagnosis.blockers[0].section, "data");
    EXPECT_THAT(diagnosis.blockers[0].sentence, HasSubstr("late, as for its input; its 'data' section takes 3"));
    EXPECT_THAT(diagnosis.blockers[0].sentence,
                HasSubstr(ranks == 2 ? " ms a step, the other's 12 ms" : " ms a step, the median 12 ms"));
  }
}

TEST(JudgeTest, OfSeveralSectionsTheOneWithTheExcessIsNamed) {
  Plan plan;
  plan.marks = true;
  plan.work = [](int rank, double, double base) { return Work{rank == 5 ? 1.8 * base : base, 1, 0.05}; };
  SimulatedJob job(plan);
  job.Run(30);
  ASSERT_EQ(job.Decide().blockers.size(), 1u);
  EXPECT_EQ(job.Decide().blockers[0].cause, Cause::kSlowCompute);
  EXPECT_EQ(job.Decide().blockers[0].section, "forward");
}

TEST(JudgeTest, ASectionThatExplainsLittleIsNotNamed) {
  Plan plan;
  plan.marks = true;
  // Of the 80 ms more, 30 are in one section, and 50 in none.
  plan.work = [](int rank, double, double base) {
    return rank == 5 ? Work{1.8 * base, 1, 0.08, 0.05} : Work{base, 1, 0.05, 0};
  };
  SimulatedJob job(plan);
  job.Run(30);
  ASSERT_EQ(job.Decide().blockers.size(), 1u);
  EXPECT_EQ(job.Decide().blockers[0].section, "");
  EXPECT_THAT(job.Decide().blockers[0].sentence, ::testing::EndsWith(": slow compute"));
}

TEST(JudgeTest, AllThatBecomeSlowerAreTheWholeJob) {
  Plan plan;
  plan.work = [](int, double now, double base) { return Work{now > 60 ? 2 * base : base, 1}; };
  SimulatedJob job(plan);
  job.Run(100);
  const Diagnosis diagnosis = job.Decide();
  ASSERT_EQ(diagnosis.blockers.size(), 1u);
  EXPECT_EQ(diagnosis.blockers[0].cause, Cause::kWholeJob);
  EXPECT_NEAR(diagnosis.blockers[0].percent, 48, 5);
}

TEST(JudgeTest, TheWorstRankOfTheWholeRunIsNamed) {
  Plan plan;
  plan.work = [](int rank, double, double base) { return Work{rank == 5 ? 1.8 * base : base, 1}; };
  SimulatedJob job(plan);
  job.Run(100);
  ASSERT_TRUE(job.WorstOfAll().has_value());
  EXPECT_EQ(job.WorstOfAll()->rank, 5u);
  EXPECT_NEAR(job.Totals().seconds, 100, 1);
  EXPECT_THAT(job.WorstOfAll()->sentence, HasSubstr("steps; the others waited 4"));
}

// The ranks of a balanced job differ from step to step, and no two jobs are alike: 100 of them, looked at every two
// seconds for two minutes, of 2 to 128 ranks on 1 to 16 hosts, with steps of 20 ms to 2 s and up to 20 % of noise.
TEST(JudgeTest, BalancedJobsRaiseNoAlarm) {
  int looks = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    std::mt19937_64 random(seed);
    const auto between = [&random](double low, double high) {
      return std::uniform_real_distribution<double>(low, high)(random);
    };
    Plan plan;
    plan.seed = seed;
    plan.ranks = static_cast<int>(std::exp2(between(1, 7)));
    plan.ranks_per_host = std::max(1, static_cast<int>(between(1, 9)));
    plan.own = 0.02 * std::pow(100, between(0, 1));
    plan.noise = between(0, 0.2);
    plan.transfer = plan.own * between(0, 0.5);
    SimulatedJob job(plan);
    job.Run(120, [&] {
      ++looks;
      const Diagnosis diagnosis = job.Decide();
      ASSERT_TRUE(diagnosis.blockers.empty()) << "seed " << seed << ", " << plan.ranks << " ranks, own " << plan.own
                                              << ", noise " << plan.noise << ": " << diagnosis.blockers[0].sentence;
    });
  }
  EXPECT_GT(looks, 3000);
}

}  // namespace
}  // namespace farandole
