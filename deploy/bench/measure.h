#ifndef FARANDOLE_DEPLOY_BENCH_MEASURE_H_
#define FARANDOLE_DEPLOY_BENCH_MEASURE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/bench/case.h"
#include "deploy/bench/measurement.h"

namespace farandole::bench {

// How long a case is measured: so many steps as take `duration` at the speed of the first ones, within the bounds. It
// stops earlier at twice `duration`.
struct Limits {
  absl::Duration duration = absl::Milliseconds(500);
  int64_t least_steps = 5;
  int64_t most_steps = 100'000;
};

// Measures a case on all ranks of the job, which all call it with the same arguments. Each rank writes its
// contributions anew before each step, outside of the time. Between steps there is a barrier, unless the op
// synchronizes by itself and its bytes are so few that writing them puts no rank behind. Errors are the worker
// library's, with its sentence.
absl::StatusOr<Measurement> Measure(const Case& what, const Limits& limits);

}  // namespace farandole::bench

#endif  // FARANDOLE_DEPLOY_BENCH_MEASURE_H_
