#include "worker/transport/shm/stage_copier.h"

#include <algorithm>
#include <cstring>

#include "worker/kernels/stream_copy.h"

namespace farandole {
namespace {

// Below it the two hardly differ.
constexpr size_t kLeastStreamedBytes = 512;
// Short copies say more about the clock.
constexpr size_t kLeastProbedBytes = 2048;
// A round of probes takes so many copies of each kind; the faster one counts, as others may have had the processor.
constexpr int kProbesOfAKind = 2;
// Rounds are rare, since a copy of the wrong kind can take ten times as long; seldom enough for the median and the
// mean, and often enough for a process that was moved to another core.
constexpr int kLongestInterval = 256;
// Of a KiB: the time that the readers lose when they find it in memory. Measured 40 to 70 ns on AMD EPYC; more, so that
// sizes that are as good as equal stay in the caches.
constexpr double kReadersLossNs = 100;

}  // namespace

void StageCopier::Copy(char* stage, const void* from, size_t bytes) {
  if (bytes >= kLeastProbedBytes && --until_probe_ < 0) {
    Probe(stage, from, bytes);
  } else if (streams_ && bytes >= kLeastStreamedBytes) {
    StreamCopy(stage, from, bytes);
  } else {
    std::memcpy(stage, from, bytes);
  }
}

void StageCopier::Probe(char* stage, const void* from, size_t bytes) {
  until_probe_ = 0;
  const bool streamed = probes_ >= kProbesOfAKind;
  const int64_t start = clock_();
  if (streamed) {
    StreamCopy(stage, from, bytes);
  } else {
    std::memcpy(stage, from, bytes);
  }
  const double ns = static_cast<double>(clock_() - start) * 1024 / static_cast<double>(bytes);
  double& least = streamed ? streamed_ns_ : ordinary_ns_;
  least = probes_ % kProbesOfAKind == 0 ? ns : std::min(least, ns);
  if (++probes_ < 2 * kProbesOfAKind) return;
  probes_ = 0;
  streams_ = ordinary_ns_ > streamed_ns_ + kReadersLossNs;
  until_probe_ = interval_;
  interval_ = std::min(2 * interval_, kLongestInterval);
}

}  // namespace farandole
