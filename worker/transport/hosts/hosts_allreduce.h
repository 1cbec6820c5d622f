#ifndef FARANDOLE_WORKER_TRANSPORT_HOSTS_HOSTS_ALLREDUCE_H_
#define FARANDOLE_WORKER_TRANSPORT_HOSTS_HOSTS_ALLREDUCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collectives/schedules/exchange_shares.h"
#include "worker/collectives/schedules/group_shape.h"
#include "worker/transport/hosts/host_part.h"
#include "worker/transport/transport.h"

namespace farandole {

// Allreduce of a group on 2 to 8 hosts by direct exchange (ExchangeShares). The work on the host, chunk by chunk, is
// its HostPart's; the owners of a share exchange it over the transport, and up to kAhead chunks are anywhere between
// their contribution and their result, so that hosts add and copy while the network is busy.
//
// An element's result is h0 + h1 + ..., in the order of hosts. Each h is the sum over the host's ranks, in the order of
// ranks. The order does not depend on the element's place in the batch. The hosts' contributions are combined at once:
// short floats in float32, rounded after the host's sum and after the whole one; if no two ranks share a host, once.
class HostsAllreduce final : public Operation {
 public:
  // Chunks in progress, as many as a rank has stages.
  static constexpr int64_t kAhead = 4;
  // How many chunks' parts a rank sends before the results of the first of them: enough that the network has work while
  // hosts add, and few enough that the data in flight stays in the caches.
  static constexpr int64_t kPartsBeforeResults = 2;

  // `transport` reaches all owners and outlives the operation, as does `received`, which is memory for their data.
  // `part` refers to `shares` too.
  HostsAllreduce(Transport* transport, const Collective& collective, const GroupShape& shape,
                 std::unique_ptr<ExchangeShares> shares, std::unique_ptr<HostPart> part, std::vector<char>* received);

  absl::StatusOr<bool> Advance() override;
  bool moved() const override { return moved_; }

 private:
  // Transfers of a chunk with each other host's owner of the share, by host; those that are not needed are complete.
  struct Exchange {
    std::vector<Transfer> parts_out;
    std::vector<Transfer> parts_in;
    std::vector<Transfer> results_out;
    std::vector<Transfer> results_in;
  };
  // How many chunks' parts, and how many chunks' results, a direction of all connections has been given; they take
  // turns in an order that is the same on both sides.
  struct ChunkCounts {
    int64_t parts = 0;
    int64_t results = 0;
  };

  Exchange& ExchangeOf(int64_t chunk) { return exchanges_[static_cast<size_t>(chunk % kAhead)]; }
  bool ResultsAreNext(const ChunkCounts& counts) const;
  void StartReceives();
  void StartSends();
  // One step on the host that can be taken; false: none.
  bool Step();
  bool StepAsOwner();
  bool CanComplete(int64_t chunk);
  // Combines the hosts' contributions to the own part.
  void Complete(int64_t chunk);
  // Whether all of the chunk is sent, so that its places may be used again.
  bool HasSent(int64_t chunk);
  bool IsDone();
  // Hosts but the own one.
  template <typename Visit>
  void ForEachHost(const Visit& visit) const;
  Transfer TransferWith(int host, const void* data, const Piece& piece) const;
  char* Received(int64_t chunk, int host);

  Transport* const transport_;
  const Collective collective_;
  const GroupShape shape_;
  const std::unique_ptr<ExchangeShares> shares_;
  const std::unique_ptr<HostPart> part_;
  const int64_t element_bytes_;
  const int own_;
  const bool owns_;
  char* const received_;
  std::vector<Exchange> exchanges_;
  ChunkCounts received_counts_;
  ChunkCounts sent_counts_;
  // Chunks that are past each step.
  int64_t contributed_ = 0;
  int64_t combined_ = 0;
  int64_t completed_ = 0;
  int64_t published_ = 0;
  int64_t collected_ = 0;
  bool moved_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_HOSTS_HOSTS_ALLREDUCE_H_
