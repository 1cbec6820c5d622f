#include "worker/collectives/schedules/exchange_shares.h"

#include <algorithm>

namespace farandole {
namespace {

constexpr int64_t kLine = 64;
// A host sends at most this in one phase.
constexpr int64_t kOnePhaseBytes = 64 << 10;
// So that adding overlaps with sending, a batch has several chunks as soon as they are this large.
constexpr int64_t kLeastChunkBytes = 128 << 10;
constexpr int64_t kWantedChunks = 4;

int64_t CeilTo(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

}  // namespace

ExchangeShares::ExchangeShares(const GroupShape& shape, int64_t count, int64_t element_bytes)
    : owners_(shape.least_on_a_host()),
      hosts_(shape.hosts()),
      count_(count),
      unit_(std::max<int64_t>(1, kLine / element_bytes)),
      has_one_phase_(count * element_bytes * (shape.hosts() - 1) <= kOnePhaseBytes) {
  if (has_one_phase_) {
    owners_ = 1;
    chunk_count_ = count;
  } else {
    const int64_t most = shape.most_on_a_host() == 1 ? kLoneChunkBytes : kSharedChunkBytes;
    const int64_t wanted = std::clamp(count * element_bytes / kWantedChunks, kLeastChunkBytes, most) / element_bytes;
    chunk_count_ = std::min(CeilTo(wanted, unit_), most / element_bytes);
  }
  chunks_ = count == 0 ? 0 : (count + chunk_count_ - 1) / chunk_count_;
}

int64_t ExchangeShares::most_in_part() const {
  if (has_one_phase_) return count_;
  const int64_t units = (chunk_count_ + unit_ - 1) / unit_;
  const int64_t of_share = (units + owners_ - 1) / owners_;
  return (of_share + hosts_ - 1) / hosts_ * unit_;
}

Piece ExchangeShares::ChunkOf(int64_t chunk) const {
  const int64_t begin = chunk * chunk_count_;
  return {Buffer::kWork, begin, std::min(chunk_count_, count_ - begin)};
}

Piece ExchangeShares::ShareOf(int64_t chunk, int owner) const { return Cut(ChunkOf(chunk), owners_, owner); }

Piece ExchangeShares::PartOf(int64_t chunk, int owner, int host) const {
  const Piece share = ShareOf(chunk, owner);
  return has_one_phase_ ? share : Cut(share, hosts_, host);
}

Piece ExchangeShares::Cut(const Piece& piece, int parts, int index) const {
  const int64_t units = (piece.count + unit_ - 1) / unit_;
  const auto bound = [&](int64_t i) { return std::min(units * i / parts * unit_, piece.count); };
  return {piece.buffer, piece.offset + bound(index), bound(index + 1) - bound(index)};
}

}  // namespace farandole
