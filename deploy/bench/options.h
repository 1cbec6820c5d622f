#ifndef FARANDOLE_DEPLOY_BENCH_OPTIONS_H_
#define FARANDOLE_DEPLOY_BENCH_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "deploy/bench/case.h"

namespace farandole::bench {

// The command line of `farandole bench`.
struct BenchOptions {
  std::vector<std::string> ops = {"allreduce"};
  std::vector<std::string> dtypes = {"f32"};
  std::string reduce = "sum";
  uint64_t min_bytes = 4;
  uint64_t max_bytes = 256 << 20;
  uint64_t factor = 4;
  int tensors = 1;
  double seconds = 0.5;
  int64_t max_steps = 100'000;
  bool in_arena = false;
  // Where rank 0 writes the results as JSON; "": nowhere.
  std::string json;
};

// Adds the options to `bench`; `options` outlives it.
void AddBenchOptions(CLI::App* bench, BenchOptions* options);

// The cases that the options ask for, in the order of the table, for a job of `size` ranks; a barrier is there once.
// Sizes are rounded down to whole elements, one at least; an op's equal ones are there once.
//   INVALID_ARGUMENT  an op, element type or reduction that there is not, --min above --max, or --arena for another op
//   than allreduce
absl::StatusOr<std::vector<Case>> ListCases(const BenchOptions& options, int size);

// "f32"; the names that --dtype takes.
const char* ShortName(DType dtype);

}  // namespace farandole::bench

#endif  // FARANDOLE_DEPLOY_BENCH_OPTIONS_H_
