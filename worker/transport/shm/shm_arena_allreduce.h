#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_SHM_ARENA_ALLREDUCE_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_SHM_ARENA_ALLREDUCE_H_

#include <cstdint>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "worker/core/collective.h"
#include "worker/transport/shm/arena.h"
#include "worker/transport/shm/fragment_walk.h"

namespace farandole {

class ShmTransport;

// Allreduce of tensors that lie in an arena: each rank reduces its own share of the elements from all regions, in the
// order of positions, and writes the result into all of them. Nothing is staged, and ranks wait for each other once, at
// the end; if there is a prescale, which rounds each input to the dtype, also after each has scaled its own.
class ShmArenaAllreduce final : public Operation {
 public:
  // `arena` is kept until the operation is dropped.
  ShmArenaAllreduce(ShmTransport* transport, const Collective& collective, std::shared_ptr<const Arena> arena);

  absl::StatusOr<bool> Advance() override;
  bool moved() const override { return moved_; }

 private:
  // First element of the share of a position.
  int64_t ShareBegin(int position) const;
  bool PeersReached(uint64_t steps) const;
  // Says that this rank has done so many steps: 1 is the scaling, 2 the reduction.
  void Publish(uint64_t steps);
  void ScalePiece();
  void ReducePiece();
  void ReduceInCache(char* own, int64_t count);

  ShmTransport* const transport_;
  const Collective collective_;
  const std::shared_ptr<const Arena> arena_;
  FragmentWalk walk_;
  const size_t element_bytes_;
  const int size_;
  const int64_t piece_elements_;
  absl::InlinedVector<char*, 8> regions_;  // by position
  int64_t scaled_ = 0;
  int64_t next_ = 0;
  int64_t end_ = 0;
  bool has_published_ = false;
  bool moved_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_SHM_ARENA_ALLREDUCE_H_
