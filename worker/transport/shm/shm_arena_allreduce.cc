#include "worker/transport/shm/shm_arena_allreduce.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "worker/kernels/reduce.h"
#include "worker/kernels/scale.h"
#include "worker/transport/shm/shm_transport.h"

namespace farandole {
namespace {

// Shares begin at multiples of a cache line.
constexpr int64_t kLine = 64;
// The bytes that one call of Advance reads, of all ranks together: some 50 us of work.
constexpr int64_t kAdvanceBytes = 512 << 10;
// A result is written to the other regions while it, and the lines that it goes to, are in the first-level cache.
constexpr int64_t kCacheBytes = 16 << 10;

}  // namespace

ShmArenaAllreduce::ShmArenaAllreduce(ShmTransport* transport, const Collective& collective,
                                     std::shared_ptr<const Arena> arena)
    : transport_(transport),
      collective_(collective),
      arena_(std::move(arena)),
      walk_(collective.fragments, SizeOf(collective.dtype)),
      element_bytes_(SizeOf(collective.dtype)),
      size_(static_cast<int>(collective.ranks.size())),
      piece_elements_(kAdvanceBytes / size_ / static_cast<int64_t>(element_bytes_)) {
  for (const int rank : collective.ranks) regions_.push_back(arena_->region(rank));
  scaled_ = collective.prescale == 1.0 ? collective.count : 0;
  next_ = ShareBegin(collective.position);
  end_ = ShareBegin(collective.position + 1);
}

int64_t ShmArenaAllreduce::ShareBegin(int position) const {
  const int64_t unit = kLine / static_cast<int64_t>(element_bytes_);
  const int64_t units = (collective_.count + unit - 1) / unit;
  return std::min(units * position / size_ * unit, collective_.count);
}

bool ShmArenaAllreduce::PeersReached(uint64_t steps) const {
  const uint64_t word = ShmTransport::ProgressWord(collective_.sequence, steps);
  return std::all_of(collective_.ranks.begin(), collective_.ranks.end(),
                     [&](int rank) { return transport_->progress(rank).reduced.load() >= word; });
}

void ShmArenaAllreduce::Publish(uint64_t steps) {
  transport_->progress(transport_->rank()).reduced.store(ShmTransport::ProgressWord(collective_.sequence, steps));
  transport_->Ring(collective_.ranks);
}

void ShmArenaAllreduce::ScalePiece() {
  const int64_t end = std::min(scaled_ + piece_elements_, collective_.count);
  walk_.ForEach(scaled_, end, [&](const char* input, char* output, int64_t, int64_t count) {
    ScaleCopy(collective_.dtype, input, output, count, collective_.prescale);
  });
  scaled_ = end;
  if (scaled_ == collective_.count) Publish(1);
}

void ShmArenaAllreduce::ReduceInCache(char* own, int64_t count) {
  const size_t offset = static_cast<size_t>(own - arena_->data());
  absl::InlinedVector<const void*, 8> inputs;
  for (const char* region : regions_) inputs.push_back(region + offset);
  Reduce(collective_.dtype, collective_.reduce_op, inputs, nullptr, own, count, collective_.postscale, size_);
  for (char* region : regions_) {
    if (region + offset != own) std::memcpy(region + offset, own, count * element_bytes_);
  }
}

void ShmArenaAllreduce::ReducePiece() {
  const int64_t end = std::min(next_ + piece_elements_, end_);
  const int64_t most = std::max(kLine, kCacheBytes / size_) / static_cast<int64_t>(element_bytes_);
  walk_.ForEach(next_, end, [&](const char*, char* own, int64_t, int64_t count) {
    for (int64_t done = 0; done < count; done += most) {
      ReduceInCache(own + done * element_bytes_, std::min(most, count - done));
    }
  });
  next_ = end;
}

absl::StatusOr<bool> ShmArenaAllreduce::Advance() {
  if (absl::Status failed = transport_->error(); !failed.ok()) return failed;
  moved_ = true;
  if (scaled_ < collective_.count) {
    ScalePiece();
    return false;
  }
  // Without a prescale all inputs are there: each rank has stated so before the log could name the batch.
  if (next_ < end_ && (collective_.prescale == 1.0 || PeersReached(1))) {
    ReducePiece();
    if (next_ < end_) return false;
  }
  if (next_ == end_ && !has_published_) {
    Publish(2);
    has_published_ = true;
  } else {
    moved_ = false;
  }
  return has_published_ && PeersReached(2);
}

}  // namespace farandole
