#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_STAGED_ROUNDS_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_STAGED_ROUNDS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/core/collective.h"
#include "worker/transport/shm/fragment_walk.h"

namespace farandole {

class ShmTransport;

// An operation in rounds of one exchange: each rank stages its part of a round, and uses everybody's as soon as all
// have staged theirs. Rounds are pipelined, as far as stages are free.
class StagedRounds : public Operation {
 public:
  absl::StatusOr<bool> Advance() final;
  bool moved() const final { return moved_; }

 protected:
  StagedRounds(ShmTransport* transport, const Collective& collective)
      : transport_(transport), collective_(collective) {}

  // As many rounds as the longest of the positions' parts needs.
  void SetRounds(int64_t longest, int64_t elements_per_round) {
    rounds_ = static_cast<uint64_t>((longest + elements_per_round - 1) / elements_per_round);
  }

  virtual void Stage(uint64_t round) = 0;
  virtual void Consume(uint64_t round) = 0;

  ShmTransport* const transport_;
  const Collective collective_;

 private:
  bool PeersStaged(uint64_t round) const;

  uint64_t rounds_ = 0;
  uint64_t staged_ = 0;
  uint64_t consumed_ = 0;
  bool moved_ = false;
};

// Writes a rank's contribution to elements [begin, end) of a reduction to where the others read it: its input with the
// prescale factor, or the identity where it takes part without contributing.
void StageContribution(ShmTransport* transport, const Collective& collective, FragmentWalk* walk, int64_t begin,
                       int64_t end, char* stage);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_STAGED_ROUNDS_H_
