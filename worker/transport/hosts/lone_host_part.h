#ifndef FARANDOLE_WORKER_TRANSPORT_HOSTS_LONE_HOST_PART_H_
#define FARANDOLE_WORKER_TRANSPORT_HOSTS_LONE_HOST_PART_H_

#include <cstdint>
#include <vector>

#include "worker/collectives/schedules/exchange_shares.h"
#include "worker/core/collective.h"
#include "worker/transport/hosts/host_part.h"
#include "worker/transport/shm/fragment_walk.h"

namespace farandole {

// The part of a rank that is the only one of its host in the group. A single tensor stays where it is; several, or none
// because the rank has joined, are packed chunk by chunk.
class LoneHostPart final : public HostPart {
 public:
  // Chunks that may be in progress.
  static constexpr int64_t kPlaces = 4;

  // `packed`, which outlives it, grows as needed.
  LoneHostPart(const Collective& collective, const ExchangeShares& shares, std::vector<char>* packed);

  bool CanContribute(int64_t chunk) override { return is_direct_ || chunk < collected_ + kPlaces; }
  void Contribute(int64_t chunk) override;
  bool CanCombine(int64_t) override { return true; }
  void Combine(int64_t) override {}
  const char* Combined(int64_t chunk, int64_t element) override;
  char* ResultPlace(int64_t chunk, int64_t element) override;
  void Publish(int64_t) override {}
  bool CanCollect(int64_t) override { return true; }
  void Collect(int64_t chunk) override;

 private:
  const Collective collective_;
  const ExchangeShares& shares_;
  FragmentWalk walk_;
  const int64_t element_bytes_;
  const bool is_direct_;
  char* packed_ = nullptr;
  int64_t collected_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_HOSTS_LONE_HOST_PART_H_
