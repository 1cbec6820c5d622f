#include <cstdint>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/diagnosis/judge.h"
#include "server/diagnosis/simulated_job.h"

namespace farandole {
namespace {

using Plan = SimulatedJob::Plan;
using Link = SimulatedJob::Link;
using Work = SimulatedJob::Work;
using ::testing::HasSubstr;

constexpr double kSlowRate = 5e6;
constexpr double kFastRate = 400e6;

// Four hosts of two ranks; collectives take 0.15 s of each quarter of a second.
Plan FourHosts() {
  Plan plan;
  plan.ranks = 8;
  plan.ranks_per_host = 2;
  plan.transfer = 0.15;
  plan.link = [](int, int, double) { return Link{0.1, kFastRate}; };
  return plan;
}

void ExpectHost(const Diagnosis& diagnosis, uint32_t host) {
  ASSERT_EQ(diagnosis.blockers.size(), 1u);
  EXPECT_EQ(diagnosis.blockers[0].cause, Cause::kSlowNetwork);
  EXPECT_FALSE(diagnosis.blockers[0].rank.has_value());
  EXPECT_EQ(diagnosis.blockers[0].host, host);
}

TEST(JudgeNetworkTest, AHostWhoseLinkIsSlowInBothDirectionsIsNamed) {
  Plan plan = FourHosts();
  plan.link = [](int from, int to, double) {
    return from == 2 || to == 2 ? Link{0.9, kSlowRate} : Link{0.05, kFastRate};
  };
  SimulatedJob job(plan);
  job.Run(30);
  const Diagnosis diagnosis = job.Decide();
  ExpectHost(diagnosis, 2);
  EXPECT_THAT(diagnosis.blockers[0].sentence,
              HasSubstr("host node-2 sends and receives 5.0 MB/s while data is under way (5"));
  EXPECT_THAT(diagnosis.blockers[0].sentence, HasSubstr(" % of the time), others 400 MB/s; all ranks waited 3"));
  EXPECT_THAT(diagnosis.blockers[0].sentence, ::testing::EndsWith("slow network"));
  // Data is under way for 0.9 of 0.15 s of each quarter of a second, and would be for an eightieth of that.
  EXPECT_NEAR(diagnosis.blockers[0].percent, 100 * 0.9 * 0.15 / 0.25, 3);
  EXPECT_NEAR(diagnosis.blockers[0].lost_seconds_a_minute, 60 * 0.9 * 0.15 / 0.25, 2);
}

TEST(JudgeNetworkTest, AHostThatSendsSlowlyIsNamedAndOneThatReceivesSlowly) {
  for (const bool sends : {true, false}) {
    Plan plan = FourHosts();
    plan.link = [sends](int from, int to, double) {
      return (sends ? from : to) == 3 ? Link{0.9, kSlowRate} : Link{0.05, kFastRate};
    };
    SimulatedJob job(plan);
    job.Run(30);
    const Diagnosis diagnosis = job.Decide();
    ExpectHost(diagnosis, 3);
    EXPECT_THAT(diagnosis.blockers[0].sentence, HasSubstr(sends ? "host node-3 sends 5" : "host node-3 receives 5"));
  }
}

// In a ring each host sends to one other one.
TEST(JudgeNetworkTest, AHostInARingIsNamed) {
  Plan plan = FourHosts();
  plan.link = [](int from, int to, double) {
    if (to != (from + 1) % 4) return Link{0, 0};
    return from == 1 || to == 1 ? Link{0.9, kSlowRate} : Link{0.05, kFastRate};
  };
  SimulatedJob job(plan);
  job.Run(30);
  ExpectHost(job.Decide(), 1);
}

TEST(JudgeNetworkTest, AHostAmongManyIsNamed) {
  Plan plan = FourHosts();
  plan.ranks_per_host = 1;
  plan.ranks = 40;
  plan.link = [](int from, int to, double) {
    if ((to - from + 40) % 40 > 6) return Link{0, 0};
    return from == 17 || to == 17 ? Link{0.9, kSlowRate} : Link{0.05, kFastRate};
  };
  SimulatedJob job(plan);
  job.Run(30);
  ExpectHost(job.Decide(), 17);
}

// Word about readiness queues up behind the data: ranks wait for the collective's begin.
TEST(JudgeNetworkTest, WaitsForWordOverASlowLinkAreTheNetworksToo) {
  Plan plan = FourHosts();
  plan.transfer = 0.05;
  plan.delay = 0.1;
  plan.link = [](int from, int to, double) {
    return from == 2 || to == 2 ? Link{3, kSlowRate} : Link{0.05, kFastRate};
  };
  SimulatedJob job(plan);
  job.Run(30);
  const Diagnosis diagnosis = job.Decide();
  ExpectHost(diagnosis, 2);
  EXPECT_NEAR(diagnosis.blockers[0].percent, 100 * 0.15 / 0.25, 5);
}

TEST(JudgeNetworkTest, DataThatTravelsWhileTheProgramComputesCostsNothing) {
  Plan plan = FourHosts();
  plan.transfer = 0.01;
  plan.link = [](int from, int to, double) {
    return from == 2 || to == 2 ? Link{9, kSlowRate} : Link{0.05, kFastRate};
  };
  SimulatedJob job(plan);
  job.Run(30);
  EXPECT_TRUE(job.Decide().blockers.empty());
}

TEST(JudgeNetworkTest, ALinkThatIsHalfAsQuickCostsHalf) {
  Plan plan = FourHosts();
  plan.transfer = 0.3;
  plan.link = [](int from, int to, double) { return from == 2 || to == 2 ? Link{1, 100e6} : Link{0.4, 250e6}; };
  SimulatedJob job(plan);
  job.Run(30);
  const Diagnosis diagnosis = job.Decide();
  ExpectHost(diagnosis, 2);
  EXPECT_NEAR(diagnosis.blockers[0].percent, 100 * 0.6 * 0.3 / 0.4, 3);
}

TEST(JudgeNetworkTest, OfTwoHostsTheOneThatSendsSlowlyIsNamed) {
  Plan plan;
  plan.ranks = 2;
  plan.ranks_per_host = 1;
  plan.transfer = 0.15;
  plan.link = [](int from, int, double) { return from == 1 ? Link{0.9, kSlowRate} : Link{0.1, kFastRate}; };
  SimulatedJob job(plan);
  job.Run(30);
  ExpectHost(job.Decide(), 1);
}

TEST(JudgeNetworkTest, WhereAllAreSlowNoHostIsNamed) {
  Plan plan = FourHosts();
  plan.link = [](int, int, double) { return Link{0.9, kSlowRate}; };
  SimulatedJob job(plan);
  job.Run(30);
  const Diagnosis diagnosis = job.Decide();
  ASSERT_EQ(diagnosis.blockers.size(), 1u);
  EXPECT_EQ(diagnosis.blockers[0].cause, Cause::kSlowNetwork);
  EXPECT_FALSE(diagnosis.blockers[0].host.has_value());
  EXPECT_NEAR(diagnosis.blockers[0].percent, 60, 3);
  EXPECT_THAT(diagnosis.blockers[0].sentence, HasSubstr("no host stands out: slow network between the hosts"));
}

TEST(JudgeNetworkTest, TheOnsetIsFound) {
  Plan plan = FourHosts();
  plan.transfer = 0.01;
  plan.link = [](int from, int to, double now) {
    if (now > 40 && (from == 2 || to == 2)) return Link{0.9, kSlowRate};
    return Link{0.1, kFastRate};
  };
  SimulatedJob job(plan);
  job.Run(40);
  job.SetTransfer(0.15);
  job.Run(19);
  const Diagnosis diagnosis = job.Decide();
  ExpectHost(diagnosis, 2);
  EXPECT_NEAR(absl::ToDoubleSeconds(diagnosis.blockers[0].since - SimulatedJob::TimeAt(40)), 0, 1.5);
}

// Its data takes longer, so its rank waits less for the others.
TEST(JudgeNetworkTest, ARankBehindASlowLinkIsNoBlockerOfItsOwn) {
  Plan plan = FourHosts();
  plan.ranks_per_host = 1;
  plan.ranks = 4;
  plan.link = [](int from, int to, double) {
    return from == 1 || to == 1 ? Link{0.9, kSlowRate} : Link{0.05, kFastRate};
  };
  plan.work = [](int rank, double, double base) { return Work{rank == 1 ? 1.3 * base : base, 1}; };
  SimulatedJob job(plan);
  job.Run(30);
  ExpectHost(job.Decide(), 1);
}

TEST(JudgeNetworkTest, SmallMessagesTellNothing) {
  Plan plan = FourHosts();
  plan.transfer = 0.04;
  plan.link = [](int from, int, double) { return Link{0.9, from == 2 ? 1e3 : 100e3}; };
  SimulatedJob job(plan);
  job.Run(30);
  EXPECT_TRUE(job.Decide().blockers.empty());
}

// Rates of one network differ by less than two thirds.
TEST(JudgeNetworkTest, AnEvenNetworkRaisesNoAlarm) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    const auto between = [&random](double low, double high) {
      return std::uniform_real_distribution<double>(low, high)(random);
    };
    Plan plan;
    plan.seed = seed;
    plan.ranks_per_host = 1 + static_cast<int>(between(0, 4));
    plan.ranks = plan.ranks_per_host * (2 + static_cast<int>(between(0, 6)));
    plan.noise = between(0, 0.2);
    plan.transfer = plan.own * between(0.1, 0.6);
    plan.link = [&](int, int, double) { return Link{between(0.2, 1), between(60e6, 100e6)}; };
    SimulatedJob job(plan);
    job.Run(60, [&] {
      const Diagnosis diagnosis = job.Decide();
      ASSERT_TRUE(diagnosis.blockers.empty()) << "seed " << seed << ": " << diagnosis.blockers[0].sentence;
    });
  }
}

}  // namespace
}  // namespace farandole
