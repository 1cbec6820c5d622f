#ifndef FARANDOLE_WORKER_TRANSPORT_HOSTS_SHARED_HOST_PART_H_
#define FARANDOLE_WORKER_TRANSPORT_HOSTS_SHARED_HOST_PART_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "worker/collectives/schedules/exchange_shares.h"
#include "worker/transport/hosts/host_part.h"
#include "worker/transport/shm/fragment_walk.h"
#include "worker/transport/shm/shm_transport.h"

namespace farandole {

// The part of ranks that share a host, through the stages of its ShmTransport. Each rank stages the elements that
// others own; owners combine their share straight from the stages and their tensors into the place that the share has
// in their own stage, where its result lies later, and where all read it. The words of ShmLayout::Progress have the
// same meaning as in an allreduce on one host. Contributions are combined in the order of positions.
class SharedHostPart final : public HostPart {
 public:
  // `transport` and `shares` outlive it. `locals`: the ranks of the group on this host, by their local index; `own`:
  // this rank's place among them.
  SharedHostPart(ShmTransport* transport, const Collective& collective, const ExchangeShares& shares,
                 absl::Span<const int> locals, int own);

  bool CanContribute(int64_t chunk) override;
  void Contribute(int64_t chunk) override;
  bool CanCombine(int64_t chunk) override;
  void Combine(int64_t chunk) override;
  const char* Combined(int64_t chunk, int64_t element) override { return StageOf(own_, chunk, element); }
  char* ResultPlace(int64_t chunk, int64_t element) override { return StageOf(own_, chunk, element); }
  void Publish(int64_t chunk) override;
  bool CanCollect(int64_t chunk) override;
  void Collect(int64_t chunk) override;

 private:
  bool Owns() const { return own_ < shares_.owners(); }
  char* StageOf(int local, int64_t chunk, int64_t element) const;
  void Stage(int64_t chunk, int64_t begin, int64_t end);
  // From the stage of `local` into the tensors.
  void CopyOut(int local, int64_t chunk, const Piece& piece);
  void Say(std::atomic<uint64_t>& word, int64_t chunk);

  ShmTransport* const transport_;
  const Collective collective_;
  const ExchangeShares& shares_;
  const absl::InlinedVector<int, 8> locals_;
  const int own_;
  FragmentWalk walk_;
  const int64_t element_bytes_;
  // The prescale rounds to the dtype and does not apply to the identity, so it is applied while staging.
  const bool combines_from_stage_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_HOSTS_SHARED_HOST_PART_H_
