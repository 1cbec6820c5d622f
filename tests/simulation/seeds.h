#ifndef FARANDOLE_TESTS_SIMULATION_SEEDS_H_
#define FARANDOLE_TESTS_SIMULATION_SEEDS_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace farandole {

// The seeds that a test of simulations plays.
struct Seeds {
  uint32_t first = 1;
  uint32_t last = 300;
  // Whether the test writes the events.
  bool is_told = false;

  // True: the argument was `--seed=N`, which it prints, or `--seeds=FIRST-LAST`.
  bool Take(absl::string_view argument);
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_SEEDS_H_
