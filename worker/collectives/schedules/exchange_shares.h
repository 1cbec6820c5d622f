#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_EXCHANGE_SHARES_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_EXCHANGE_SHARES_H_

#include <cstdint>

#include "worker/collectives/schedules/group_shape.h"
#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// Divides the elements of an allreduce between hosts by direct exchange. Elements go through it in chunks. As many
// ranks of each host as the smallest host has own a share of each chunk: they hold their host's contribution to it. The
// owners of the same share, one on each host, exchange it: each completes its host's part of the share, from the parts
// that the others have sent it, and sends the result to them. Few elements take one phase instead of two: each host's
// leader sends all to all others, and completes all by itself.
//
// Pure, and equal on all ranks. Parts begin at multiples of a cache line within the elements, and may be empty.
class ExchangeShares {
 public:
  // More hosts than this exchange too many messages, and run a ring.
  static constexpr int kMostHosts = GroupShape::kMostDirectHosts;
  // A chunk is at most this large where ranks share a host, and where none do.
  static constexpr int64_t kSharedChunkBytes = 256 << 10;
  static constexpr int64_t kLoneChunkBytes = 512 << 10;

  // `hosts` of the shape is at most kMostHosts.
  ExchangeShares(const GroupShape& shape, int64_t count, int64_t element_bytes);

  bool has_one_phase() const { return has_one_phase_; }
  // Local indices below it own a share.
  int owners() const { return owners_; }
  int hosts() const { return hosts_; }
  int64_t chunks() const { return chunks_; }
  // The most elements that ChunkOf has.
  int64_t most_in_chunk() const { return chunk_count_; }
  // The most elements that PartOf has.
  int64_t most_in_part() const;

  Piece ChunkOf(int64_t chunk) const;
  Piece ShareOf(int64_t chunk, int owner) const;
  // The part that the owner on `host` completes: in one phase, all of the share on each.
  Piece PartOf(int64_t chunk, int owner, int host) const;

 private:
  // The `index`th of `parts` of the piece.
  Piece Cut(const Piece& piece, int parts, int index) const;

  int owners_;
  int hosts_;
  int64_t count_;
  // Elements of a cache line.
  int64_t unit_;
  bool has_one_phase_;
  int64_t chunk_count_;
  int64_t chunks_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_EXCHANGE_SHARES_H_
