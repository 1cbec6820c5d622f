#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_SHM_ALLREDUCE_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_SHM_ALLREDUCE_H_

#include <cstdint>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "worker/core/collective.h"
#include "worker/transport/shm/fragment_walk.h"
#include "worker/transport/shm/shm_layout.h"

namespace farandole {

class ShmTransport;

// Allreduce through the stages. Small batches take one phase: each rank stages its input and reduces everybody's.
// Larger ones take two: each rank stages the elements that others will reduce, reduces its own share of each chunk
// straight from the stages and its tensors into its tensors, stages that result, and copies the others' shares out of
// their stages. Chunks are pipelined. Inputs are combined in the order of positions.
class ShmAllreduce final : public Operation {
 public:
  ShmAllreduce(ShmTransport* transport, const Collective& collective);

  absl::StatusOr<bool> Advance() override;
  bool moved() const override { return moved_; }

 private:
  using Range = std::pair<int64_t, int64_t>;

  Range ChunkRange(uint64_t chunk) const;
  // The elements of a chunk that `position` reduces.
  Range ShareRange(Range chunk, int position) const;
  bool PeersReached(bool reduced, uint64_t chunks) const;
  void StageInput(uint64_t chunk);
  void ReduceShare(uint64_t chunk);
  void ReduceRange(uint64_t chunk, Range range, bool stage_result);
  void CopyShares(uint64_t chunk);
  char* StageOf(int position, uint64_t chunk, int64_t element) const;

  ShmTransport* const transport_;
  const Collective collective_;
  FragmentWalk walk_;
  const size_t element_bytes_;
  const int size_;
  int64_t chunk_elements_ = 0;
  size_t slot_bytes_ = kStageBytes;
  bool one_phase_ = false;
  // The prescale rounds to the dtype and does not apply to the identity, so it is applied while staging.
  bool reduces_from_stage_ = false;
  uint64_t chunks_ = 0;
  uint64_t staged_ = 0;
  uint64_t reduced_ = 0;
  uint64_t consumed_ = 0;
  bool moved_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_SHM_ALLREDUCE_H_
