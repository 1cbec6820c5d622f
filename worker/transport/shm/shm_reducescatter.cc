#include "worker/transport/shm/shm_reducescatter.h"

#include <algorithm>

#include "worker/kernels/reduce.h"
#include "worker/transport/shm/shm_transport.h"

namespace farandole {
namespace {

// Slices begin at multiples of a cache line.
constexpr int64_t kLine = 64;

}  // namespace

ShmReducescatter::ShmReducescatter(ShmTransport* transport, const Collective& collective)
    : StagedRounds(transport, collective),
      walk_(collective.fragments, SizeOf(collective.dtype)),
      element_bytes_(static_cast<int64_t>(SizeOf(collective.dtype))),
      size_(static_cast<int>(collective.ranks.size())),
      stages_own_(!collective.contributes || collective.prescale != 1.0) {
  const int64_t slice_bytes = static_cast<int64_t>(kStageBytes) / size_ / kLine * kLine;
  slice_ = std::max<int64_t>(1, slice_bytes / element_bytes_);
  int64_t displacement = 0;
  int64_t most = 0;
  for (const int64_t count : collective.counts) {
    displacements_.push_back(displacement);
    displacement += count;
    most = std::max(most, count);
  }
  SetRounds(most, slice_);
}

std::pair<int64_t, int64_t> ShmReducescatter::SliceOf(int position, uint64_t round) const {
  const int64_t count = collective_.counts[position];
  const int64_t begin = std::min(static_cast<int64_t>(round) * slice_, count);
  return {displacements_[position] + begin, displacements_[position] + std::min(begin + slice_, count)};
}

char* ShmReducescatter::StageOf(int owner, int position, uint64_t round) const {
  return transport_->Stage(collective_.ranks[owner], collective_.sequence, round) + position * slice_ * element_bytes_;
}

void ShmReducescatter::Stage(uint64_t round) {
  for (int position = 0; position < size_; ++position) {
    if (position == collective_.position && !stages_own_) continue;
    const auto [begin, end] = SliceOf(position, round);
    StageContribution(transport_, collective_, &walk_, begin, end, StageOf(collective_.position, position, round));
  }
  transport_->UseStage(collective_.sequence, round, collective_.ranks);
}

void ShmReducescatter::Consume(uint64_t round) {
  const auto [begin, end] = SliceOf(collective_.position, round);
  absl::InlinedVector<const void*, 8> inputs(size_);
  walk_.ForEach(begin, end, [&](const char* input, char* output, int64_t from, int64_t count) {
    for (int owner = 0; owner < size_; ++owner) {
      inputs[owner] = StageOf(owner, collective_.position, round) + from * element_bytes_;
    }
    if (!stages_own_) inputs[collective_.position] = input;
    Reduce(collective_.dtype, collective_.reduce_op, inputs, nullptr, output, count, collective_.postscale, size_);
  });
}

}  // namespace farandole
