// Runs simulations: some hundred seeds as a test; `simulation_test --seed=N` one of them, telling what happens;
// `--seeds=FIRST-LAST` many.
#include "tests/simulation/simulation.h"

#include <cstdint>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/simulation/seeds.h"

namespace farandole {
namespace {

Seeds seeds;

TEST(SimulationTest, WhateverGoesWrongNothingHangsAndNothingIsWrong) {
  for (uint32_t seed = seeds.first; seed <= seeds.last; ++seed) {
    Simulation simulation(seed);
    const std::string violation = simulation.Run();
    std::string history;
    for (const std::string& line : simulation.history()) absl::StrAppend(&history, line, "\n");
    if (seeds.is_told) std::cout << history;
    ASSERT_EQ(violation, "") << "seed " << seed << " (make sim SEED=" << seed << " shows it)\n" << history;
  }
}

}  // namespace

bool TakeFlag(absl::string_view argument) { return seeds.Take(argument); }

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
