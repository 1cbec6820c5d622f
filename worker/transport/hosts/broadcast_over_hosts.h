#ifndef FARANDOLE_WORKER_TRANSPORT_HOSTS_BROADCAST_OVER_HOSTS_H_
#define FARANDOLE_WORKER_TRANSPORT_HOSTS_BROADCAST_OVER_HOSTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collectives/schedules/group_shape.h"
#include "worker/transport/shm/fragment_walk.h"
#include "worker/transport/shm/shm_transport.h"
#include "worker/transport/transport.h"

namespace farandole {

// Broadcast of a group on several hosts. One rank of each host, its head, takes part in a binomial tree of hosts (the
// root is the head of its own, else the host's first rank); it stages the data, chunk by chunk, and the others of its
// host copy it from there. Data goes straight into a single tensor; several are packed.
class BroadcastOverHosts final : public Operation {
 public:
  // `transport` reaches all heads. `local` is that of this host, and may be null for a rank that is alone there;
  // `locals` are the group's ranks on it by their local index. `packed` is memory that grows as needed. All but
  // `locals` outlive the operation.
  BroadcastOverHosts(Transport* transport, ShmTransport* local, const Collective& collective, const GroupShape& shape,
                     std::vector<int> locals, std::vector<char>* packed);

  absl::StatusOr<bool> Advance() override;
  bool moved() const override { return moved_; }

 private:
  // Chunks that the head has begun to receive and not yet done with.
  static constexpr int64_t kAhead = 4;
  // Transfers of a chunk.
  struct Exchange {
    Transfer in;
    std::vector<Transfer> out;
  };

  void FindPlace(const GroupShape& shape);
  bool IsRoot() const { return collective_.position == collective_.root; }
  bool IsHead() const { return head_ == own_; }
  Exchange& ExchangeOf(int64_t chunk) { return exchanges_[static_cast<size_t>(chunk % kAhead)]; }
  bool HasSent(int64_t chunk);
  // Elements of the chunk.
  int64_t Begin(int64_t chunk) const { return chunk * chunk_count_; }
  int64_t CountOf(int64_t chunk) const;
  // Where the head has the chunk.
  char* ChunkAt(int64_t chunk);

  void StartReceives();
  bool AdvanceHead();
  bool HasArrived(int64_t chunk);
  bool AdvanceReader();
  // The head's steps with a chunk that it has: sends it on; shows it to its host; copies it into its tensors.
  void SendOn(int64_t chunk);
  void Show(int64_t chunk);
  void Keep(int64_t chunk);
  void Say(std::atomic<uint64_t>& word, int64_t chunk);

  Transport* const transport_;
  ShmTransport* const local_;
  const Collective collective_;
  const std::vector<int> locals_;
  const int own_;
  FragmentWalk walk_;
  const int64_t element_bytes_;
  const int64_t chunk_count_;
  const int64_t chunks_;
  // Index of the host's head among its ranks, and the ranks before and behind it in the tree.
  int head_ = 0;
  int parent_ = -1;
  std::vector<int> children_;
  // The memory of a single tensor; null: chunks are packed.
  char* direct_ = nullptr;
  char* packed_ = nullptr;
  std::vector<Exchange> exchanges_;
  int64_t received_ = 0;
  int64_t sent_on_ = 0;
  int64_t done_ = 0;
  bool moved_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_HOSTS_BROADCAST_OVER_HOSTS_H_
