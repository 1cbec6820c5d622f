#ifndef FARANDOLE_DEPLOY_BENCH_MEASUREMENT_H_
#define FARANDOLE_DEPLOY_BENCH_MEASUREMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "deploy/bench/case.h"

namespace farandole::bench {

// The times of one case. The same on all ranks.
struct Measurement {
  Case what;
  int size = 1;
  // Of the steps; a step takes as long as its slowest rank.
  absl::Duration median;
  absl::Duration p99;
  absl::Duration least;
  int64_t steps = 0;
  // Elements with a wrong value, over all ranks, in the steps that were looked at (the first ones and the last one).
  int64_t wrong = 0;

  // Of all tensors of a step.
  uint64_t Bytes() const;
  // Bytes a second by the median: of Bytes, and of the bytes that each rank must at least send or receive for them
  // (NCCL's bus bandwidth, which can be compared between numbers of ranks). 0 for barrier.
  double AlgorithmBandwidth() const;
  double BusBandwidth() const;
};

// Median, 99th percentile (the least sample that 99 % do not exceed) and least of the samples, of which there is one at
// least.
struct Quantiles {
  double median;
  double p99;
  double least;
};
Quantiles QuantilesOf(std::vector<double> samples);

}  // namespace farandole::bench

#endif  // FARANDOLE_DEPLOY_BENCH_MEASUREMENT_H_
