#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_SHM_BROADCAST_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_SHM_BROADCAST_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/core/collective.h"
#include "worker/transport/shm/fragment_walk.h"

namespace farandole {

class ShmTransport;

// Broadcast through the root's stages, which all others read.
class ShmBroadcast final : public Operation {
 public:
  ShmBroadcast(ShmTransport* transport, const Collective& collective);

  absl::StatusOr<bool> Advance() override;
  bool moved() const override { return moved_; }

 private:
  void Stage(int64_t begin, int64_t end);
  void Copy(int64_t begin, int64_t end);

  ShmTransport* const transport_;
  const Collective collective_;
  FragmentWalk walk_;
  const size_t element_bytes_;
  int64_t chunk_elements_;
  uint64_t chunks_;
  uint64_t done_ = 0;
  bool moved_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_SHM_BROADCAST_H_
