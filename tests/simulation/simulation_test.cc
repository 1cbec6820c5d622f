// Runs simulations: some hundred seeds as a test; `simulation_test --seed=N` one of them, telling what happens;
// `--seeds=FIRST-LAST` many.
#include "tests/simulation/simulation.h"

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

TEST(SimulationTest, WhateverGoesWrongNothingHangsAndNothingIsWrong) {
  for (uint32_t seed = first_seed; seed <= last_seed; ++seed) {
    Simulation simulation(seed);
    const std::string violation = simulation.Run();
    std::string history;
    for (const std::string& line : simulation.history()) absl::StrAppend(&history, line, "\n");
    if (tells) std::cout << history;
    ASSERT_EQ(violation, "") << "seed " << seed << " (make sim SEED=" << seed << " shows it)\n" << history;
  }
}

}  // namespace

bool TakeFlag(absl::string_view argument) {
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
    std::cerr << "simulation_test: no such flag: " << argv[i] << "; there are --seed=N and --seeds=FIRST-LAST\n";
    return 2;
  }
  return RUN_ALL_TESTS();
}
