#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_SHM_REDUCESCATTER_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_SHM_REDUCESCATTER_H_

#include <cstdint>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "worker/core/collective.h"
#include "worker/transport/shm/fragment_walk.h"
#include "worker/transport/shm/staged_rounds.h"

namespace farandole {

// Reducescatter through the stages: in round k every rank stages the k-th slice of all others' shares, and reduces the
// one of its own share from everybody's stages and its own tensors. Inputs are combined in the order of positions.
class ShmReducescatter final : public StagedRounds {
 public:
  ShmReducescatter(ShmTransport* transport, const Collective& collective);

 private:
  void Stage(uint64_t round) override;
  void Consume(uint64_t round) override;
  // The elements [first, second) of the batch that are a round's slice of the position's share.
  std::pair<int64_t, int64_t> SliceOf(int position, uint64_t round) const;
  // Where `owner` has staged its contribution to the slice of `position`.
  char* StageOf(int owner, int position, uint64_t round) const;

  FragmentWalk walk_;
  const int64_t element_bytes_;
  const int size_;
  // Elements of a slice.
  int64_t slice_ = 0;
  // The prescale rounds to the dtype and does not apply to the identity, so it is applied while staging.
  const bool stages_own_;
  absl::InlinedVector<int64_t, 8> displacements_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_SHM_REDUCESCATTER_H_
