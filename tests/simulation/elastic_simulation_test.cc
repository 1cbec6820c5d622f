// Runs simulations of elastic jobs: some hundred seeds of small ones as a test; `elastic_simulation_test --seed=N` one
// of them, telling what happens; `--seeds=FIRST-LAST` many; `--workers=10240` one large job.
#include "tests/simulation/elastic_simulation.h"

#include <cstdint>
#include <iostream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

uint32_t first_seed = 1;
uint32_t last_seed = 300;
bool tells = false;
int large = 0;

std::string Play(uint32_t seed, const ElasticSimulation::Scale& scale) {
  ElasticSimulation simulation(seed, scale);
  const std::string violation = simulation.Run();
  std::string history;
  for (const std::string& line : simulation.history()) absl::StrAppend(&history, line, "\n");
  if (tells) std::cout << history;
  return violation.empty() ? "" : absl::StrCat("seed ", seed, ": ", violation, "\n", history);
}

TEST(ElasticSimulationTest, WhateverGoesWrongThoseWhoLiveGoOnTogether) {
  if (large > 0) GTEST_SKIP() << "a large one is played";
  for (uint32_t seed = first_seed; seed <= last_seed; ++seed) {
    ASSERT_EQ(Play(seed, ElasticSimulation::Small(seed)), "");
  }
}

TEST(ElasticSimulationTest, SoDoThoseOfALargeJob) {
  const int workers = large > 0 ? large : 256;
  tells = large > 0;
  EXPECT_EQ(Play(first_seed, {workers, workers / 8, 8, 30 * kSecond, 120 * kSecond}), "");
}

}  // namespace

bool TakeFlag(absl::string_view argument) {
  absl::string_view value = argument;
  if (absl::ConsumePrefix(&value, "--workers=")) return absl::SimpleAtoi(value, &large) && large >= 8;
  if (absl::ConsumePrefix(&argument, "--seed=")) {
    tells = true;
    return absl::SimpleAtoi(argument, &first_seed) && absl::SimpleAtoi(argument, &last_seed);
  }
  if (!absl::ConsumePrefix(&argument, "--seeds=")) return false;
  const std::pair<std::string, std::string> range = absl::StrSplit(argument, absl::MaxSplits('-', 1));
  return absl::SimpleAtoi(range.first, &first_seed) && absl::SimpleAtoi(range.second, &last_seed);
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
