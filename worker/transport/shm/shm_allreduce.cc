#include "worker/transport/shm/shm_allreduce.h"

#include <algorithm>
#include <cstring>

#include "worker/kernels/reduce.h"
#include "worker/transport/shm/shm_transport.h"
#include "worker/transport/shm/staged_rounds.h"

namespace farandole {
namespace {

// Up to here all ranks reduce everything, which saves one exchange: measured break-even of 64 KiB for 2 ranks, less for
// more because the work grows with the number of ranks.
constexpr int64_t kOnePhaseBytesTimesRanks = 128 << 10;
// Shares begin at multiples of a cache line.
constexpr int64_t kLine = 64;
// A result is staged piece by piece while it is in the first-level cache.
constexpr int64_t kPieceBytes = 16 << 10;

}  // namespace

ShmAllreduce::ShmAllreduce(ShmTransport* transport, const Collective& collective)
    : transport_(transport),
      collective_(collective),
      walk_(collective.fragments, SizeOf(collective.dtype)),
      element_bytes_(SizeOf(collective.dtype)),
      size_(static_cast<int>(collective.ranks.size())) {
  const int64_t bytes = collective.count * static_cast<int64_t>(element_bytes_);
  one_phase_ = bytes <= static_cast<int64_t>(kStageBytes) && bytes * size_ <= kOnePhaseBytesTimesRanks;
  while (slot_bytes_ > kLeastSlotBytes && bytes <= static_cast<int64_t>(slot_bytes_ / 2)) slot_bytes_ /= 2;
  chunk_elements_ = static_cast<int64_t>(kStageBytes / element_bytes_);
  chunks_ = static_cast<uint64_t>((collective.count + chunk_elements_ - 1) / chunk_elements_);
  reduces_from_stage_ = !collective.contributes || collective.prescale != 1.0;
}

ShmAllreduce::Range ShmAllreduce::ChunkRange(uint64_t chunk) const {
  const int64_t begin = static_cast<int64_t>(chunk) * chunk_elements_;
  return {begin, std::min(begin + chunk_elements_, collective_.count)};
}

ShmAllreduce::Range ShmAllreduce::ShareRange(Range chunk, int position) const {
  const int64_t unit = std::max<int64_t>(1, kLine / static_cast<int64_t>(element_bytes_));
  const int64_t units = (chunk.second - chunk.first + unit - 1) / unit;
  auto at = [&](int p) { return std::min(chunk.first + units * p / size_ * unit, chunk.second); };
  return {at(position), at(position + 1)};
}

char* ShmAllreduce::StageOf(int position, uint64_t chunk, int64_t element) const {
  char* stage = transport_->Stage(collective_.ranks[position], collective_.sequence, chunk, slot_bytes_);
  return stage + (element - ChunkRange(chunk).first) * static_cast<int64_t>(element_bytes_);
}

bool ShmAllreduce::PeersReached(bool reduced, uint64_t chunks) const {
  const uint64_t word = ShmTransport::ProgressWord(collective_.sequence, chunks);
  for (int position = 0; position < size_; ++position) {
    if (position == collective_.position) continue;
    const ShmLayout::Progress& progress = transport_->progress(collective_.ranks[position]);
    if ((reduced ? progress.reduced : progress.staged).load() < word) return false;
  }
  return true;
}

void ShmAllreduce::StageInput(uint64_t chunk) {
  const Range range = ChunkRange(chunk);
  const auto copy = [&](Range part) {
    StageContribution(transport_, collective_, &walk_, part.first, part.second,
                      StageOf(collective_.position, chunk, part.first));
  };
  if (one_phase_ || reduces_from_stage_) {
    copy(range);
  } else {
    // The own share is reduced from where it is.
    const Range share = ShareRange(range, collective_.position);
    copy({range.first, share.first});
    copy({share.second, range.second});
  }
  transport_->UseStage(collective_.sequence, chunk, collective_.ranks, slot_bytes_);
}

void ShmAllreduce::ReduceRange(uint64_t chunk, Range range, bool stage_result) {
  absl::InlinedVector<const void*, 8> inputs(size_);
  const int64_t most = kPieceBytes / static_cast<int64_t>(element_bytes_);
  auto reduce = [&](const char* input, char* output, int64_t from, int64_t count) {
    for (int64_t done = 0; done < count; done += most) {
      const int64_t piece = std::min(most, count - done);
      const int64_t element = range.first + from + done;
      const size_t offset = done * element_bytes_;
      for (int position = 0; position < size_; ++position) inputs[position] = StageOf(position, chunk, element);
      if (!reduces_from_stage_) inputs[collective_.position] = input + offset;
      Reduce(collective_.dtype, collective_.reduce_op, inputs, nullptr, output + offset, piece, collective_.postscale,
             size_);
      if (!stage_result) continue;
      transport_->copier().Copy(StageOf(collective_.position, chunk, element), output + offset, piece * element_bytes_);
    }
  };
  if (collective_.contributes) {
    walk_.ForEach(range.first, range.second, reduce);
  } else if (stage_result) {
    // In place, over the identity that was staged.
    char* stage = StageOf(collective_.position, chunk, range.first);
    for (int position = 0; position < size_; ++position) inputs[position] = StageOf(position, chunk, range.first);
    Reduce(collective_.dtype, collective_.reduce_op, inputs, nullptr, stage, range.second - range.first,
           collective_.postscale, size_);
  }
}

void ShmAllreduce::ReduceShare(uint64_t chunk) {
  const Range range = ChunkRange(chunk);
  if (one_phase_) {
    ReduceRange(chunk, range, /*stage_result=*/false);
  } else {
    ReduceRange(chunk, ShareRange(range, collective_.position), /*stage_result=*/size_ > 1);
  }
}

void ShmAllreduce::CopyShares(uint64_t chunk) {
  if (one_phase_) return;
  const Range range = ChunkRange(chunk);
  for (int position = 0; position < size_; ++position) {
    if (position == collective_.position) continue;
    const Range share = ShareRange(range, position);
    if (share.first >= share.second) continue;
    const char* stage = StageOf(position, chunk, share.first);
    walk_.ForEach(share.first, share.second, [&](const char*, char* output, int64_t from, int64_t count) {
      std::memcpy(output, stage + from * element_bytes_, count * element_bytes_);
    });
  }
}

absl::StatusOr<bool> ShmAllreduce::Advance() {
  if (absl::Status failed = transport_->error(); !failed.ok()) return failed;
  ShmLayout::Progress& own = transport_->progress(transport_->rank());
  const uint64_t sequence = collective_.sequence;
  moved_ = true;
  if (consumed_ == chunks_) return true;
  if (reduced_ < staged_ && PeersReached(false, reduced_ + 1)) {
    ReduceShare(reduced_++);
    own.reduced.store(ShmTransport::ProgressWord(sequence, reduced_));
    if (!one_phase_) transport_->Ring(collective_.ranks);
  } else if (consumed_ < reduced_ && (one_phase_ || PeersReached(true, consumed_ + 1))) {
    CopyShares(consumed_++);
    own.consumed.store(ShmTransport::ProgressWord(sequence, consumed_));
    transport_->Ring(collective_.ranks);
    return consumed_ == chunks_;
  } else if (staged_ < chunks_ && transport_->StageIsFree(sequence, staged_, slot_bytes_)) {
    StageInput(staged_++);
    own.staged.store(ShmTransport::ProgressWord(sequence, staged_));
    transport_->Ring(collective_.ranks);
  } else {
    moved_ = false;
  }
  return false;
}

}  // namespace farandole
