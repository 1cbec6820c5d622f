#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_SHM_ALLGATHER_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_SHM_ALLGATHER_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "worker/core/collective.h"
#include "worker/transport/shm/staged_rounds.h"

namespace farandole {

// Allgather through the stages: in round k every rank that has a k-th chunk stages it, and all copy all.
class ShmAllgather final : public StagedRounds {
 public:
  ShmAllgather(ShmTransport* transport, const Collective& collective);

 private:
  void Stage(uint64_t round) override;
  void Consume(uint64_t round) override;
  // Elements of the position's contribution that belong to a round: [begin, end), begin >= end if there are none.
  int64_t RoundEnd(int position, uint64_t round) const;

  const size_t element_bytes_;
  const int64_t chunk_elements_;
  absl::InlinedVector<int64_t, 8> displacements_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_SHM_ALLGATHER_H_
