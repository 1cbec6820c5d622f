#include "deploy/bench/measurement.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace farandole::bench {

uint64_t Measurement::Bytes() const { return what.Bytes(size) * static_cast<uint64_t>(what.tensors); }

double Measurement::AlgorithmBandwidth() const {
  return static_cast<double>(Bytes()) / std::max(absl::ToDoubleSeconds(median), 1e-9);
}

double Measurement::BusBandwidth() const { return AlgorithmBandwidth() * BusFactor(what.op, size); }

Quantiles QuantilesOf(std::vector<double> samples) {
  FD_CHECK(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const size_t count = samples.size();
  const auto at_99 = static_cast<size_t>(std::ceil(static_cast<double>(count) * 0.99)) - 1;
  const double median = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
  return {median, samples[at_99], samples[0]};
}

}  // namespace farandole::bench
