#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_ARENA_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/transport/shm/epoch_memory.h"

namespace farandole {

// Memory for tensors that the ranks of a group on one host reduce in place: a region of the same size for each of them,
// and all map all. While a collective runs on tensors at equal offsets of the regions, the group's ranks write into
// each other's regions, each rank its own share of the elements; else only the owner writes. Made for one epoch: when
// that has ended, a rank that was stopped in a collective may still write into it, so nothing that is to live is left
// there. Immutable; any thread.
class Arena {
 public:
  // `number`: of this arena, in the epoch. `memory` has Bytes(ranks.size(), bytes); shared by ranks that are threads of
  // one process, in tests. `ranks`: the owners of regions, by their index on the host, ascending; `rank` is one of
  // them.
  Arena(uint64_t number, std::shared_ptr<EpochMemory> memory, std::vector<int> ranks, int rank, size_t bytes);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // The bytes of the regions of so many ranks: each begins at a page.
  static size_t Bytes(size_t ranks, size_t bytes);
  // Where the region of the rank at `position` begins in that.
  static size_t RegionOffset(size_t position, size_t bytes);

  uint64_t number() const { return number_; }
  // This rank's region.
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // The region of a rank that has one.
  char* region(int rank) const;
  // Whether the bytes lie in this rank's region.
  bool Contains(const void* at, size_t bytes) const;

 private:
  const uint64_t number_;
  const std::shared_ptr<EpochMemory> memory_;
  const std::vector<int> ranks_;
  const size_t bytes_;
  char* const data_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_ARENA_H_
