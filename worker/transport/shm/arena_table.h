#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_ARENA_TABLE_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_ARENA_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/types/span.h"
#include "worker/core/collective.h"
#include "worker/transport/shm/arena.h"

namespace farandole {

// Where the tensors of a submission lie, for the ranks to compare. `arena` is 0 if they do not all lie in one arena,
// each its own output; else its number, and `offsets` a hash of where in it.
struct Placement {
  uint64_t arena = 0;
  uint64_t offsets = 0;

  bool operator==(const Placement& other) const { return arena == other.arena && offsets == other.offsets; }
};

// The arenas of one rank in one epoch. It does not keep them: the maker of an arena does, as long as tensors lie there.
// Thread-safe: one lock, held briefly.
class ArenaTable {
 public:
  void Add(const std::shared_ptr<const Arena>& arena);
  // Null: there is none of this number any more.
  std::shared_ptr<const Arena> Find(uint64_t number) const;
  Placement PlacementOf(absl::Span<const Fragment> fragments, size_t element_bytes) const;

 private:
  mutable std::mutex mutex_;
  // So that programs without arenas do not pay for the lock.
  std::atomic<bool> is_empty_{true};
  std::vector<std::weak_ptr<const Arena>> arenas_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_ARENA_TABLE_H_
