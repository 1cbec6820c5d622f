// Runs simulations of elastic jobs: some hundred seeds of small ones as a test; `elastic_simulation_test --seed=N` one
// of them, telling what happens; `--seeds=FIRST-LAST` many; `--workers=10240` one large job.
#include "tests/simulation/elastic_simulation.h"

#include <cstdint>
#include <iostream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "tests/simulation/seeds.h"

namespace farandole {
namespace {

Seeds seeds;
int large = 0;

std::string Play(uint32_t seed, const ElasticSimulation::Scale& scale) {
  ElasticSimulation simulation(seed, scale);
  const std::string violation = simulation.Run();
  std::string history;
  for (const std::string& line : simulation.history()) absl::StrAppend(&history, line, "\n");
  if (seeds.is_told) std::cout << history;
  return violation.empty() ? "" : absl::StrCat("seed ", seed, ": ", violation, "\n", history);
}

TEST(ElasticSimulationTest, WhateverGoesWrongThoseWhoLiveGoOnTogether) {
  if (large > 0) GTEST_SKIP() << "a large one is played";
  for (uint32_t seed = seeds.first; seed <= seeds.last; ++seed) {
    ASSERT_EQ(Play(seed, ElasticSimulation::Small(seed)), "");
  }
}

TEST(ElasticSimulationTest, SoDoThoseOfALargeJob) {
  const int workers = large > 0 ? large : 256;
  if (large > 0) seeds.is_told = true;
  EXPECT_EQ(Play(seeds.first, {workers, workers / 8, 8, 30 * kSecond, 120 * kSecond}), "");
}

}  // namespace

bool TakeFlag(absl::string_view argument) {
  absl::string_view value = argument;
  if (absl::ConsumePrefix(&value, "--workers=")) return absl::SimpleAtoi(value, &large) && large >= 8;
  return seeds.Take(argument);
}

}  // namespace farandole

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (farandole::TakeFlag(argv[i])) continue;
    std::cerr << "elastic_simulation_test: no such flag: " << argv[i]
              << "; there are --seed=N, --seeds=FIRST-LAST and --workers=N\n";
    return 2;
  }
  return RUN_ALL_TESTS();
}
