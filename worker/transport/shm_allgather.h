#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_ALLGATHER_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_ALLGATHER_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "worker/transport/transport.h"

namespace farandole {

class ShmTransport;

// Allgather through the stages: in round k every rank that has a k-th chunk stages it, and all copy all.
class ShmAllgather final : public Operation {
 public:
  ShmAllgather(ShmTransport* transport, const Collective& collective);

  absl::StatusOr<bool> Advance() override;
  bool moved() const override { return moved_; }

 private:
  // Elements of the position's contribution that belong to a round: [begin, end), begin >= end if there are none.
  int64_t RoundEnd(int position, uint64_t round) const;
  bool PeersStaged(uint64_t round) const;
  void Stage(uint64_t round);
  void Copy(uint64_t round);

  ShmTransport* const transport_;
  const Collective collective_;
  const size_t element_bytes_;
  const int64_t chunk_elements_;
  absl::InlinedVector<int64_t, 8> displacements_;
  uint64_t rounds_ = 0;
  uint64_t staged_ = 0;
  uint64_t consumed_ = 0;
  bool moved_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_ALLGATHER_H_
