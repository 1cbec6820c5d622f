#ifndef FARANDOLE_WORKER_ORDER_READY_CHANNEL_H_
#define FARANDOLE_WORKER_ORDER_READY_CHANNEL_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "worker/core/collective.h"
#include "worker/core/doorbell.h"
#include "worker/measure/rank_record.h"
#include "worker/order/rendezvous.h"
#include "worker/transport/shm/arena_table.h"

namespace farandole {

// Reducescatter: how many of a tensor's rows the position gets; the first ones get one more than the others.
inline int64_t ShareOfRows(int64_t rows, int64_t positions, int64_t position) {
  return rows / positions + (position < rows % positions ? 1 : 0);
}

// Flags of a post or an entry.
// The rows have no elements: the counts state rows, and no data moves.
inline constexpr uint8_t kRowsAreEmpty = 1;
// The tensors lie in the ranks' GPUs.
inline constexpr uint8_t kOnGpus = 2;
// Only with kOnGpus: all ranks capture the collective in CUDA graphs.
inline constexpr uint8_t kIsCaptured = 4;
inline constexpr uint8_t kAllFlags = kRowsAreEmpty | kOnGpus | kIsCaptured;

// The fixed part of a Post.
struct PostHeader {
  // kJoin: until all ranks have joined, the rank submits nothing, and the submissions of others do not wait for it.
  enum class Kind : uint8_t { kSubmit = 0, kJoin = 1, kLeave = 2 };

  uint32_t slot = 0;
  Kind kind = Kind::kSubmit;
  uint8_t flags = 0;
  OpType op = OpType::kAllreduce;
  DType dtype = DType::kF32;
  // Hash of everything that ranks must agree about.
  uint64_t signature = 0;
  // The number of elements that this rank contributes; alltoall: the elements of one row. kJoin: how many of the rank's
  // posts have come back so far because their slots were retired. The rank has posted these submissions again.
  int64_t count = 0;
  // The root's position in the group, if the op has a root.
  int32_t root = 0;
  ReduceOp reduce_op = ReduceOp::kSum;
  // 1: the payload travels inline on every rank (only the root's is filled in for a broadcast).
  uint8_t is_inline = 0;
  uint16_t payload_bytes = 0;
  double prescale = 1.0;
  double postscale = 1.0;
};

// One rank's statement to the order log's keeper, rank 0. The layout is shared between processes.
struct Post : PostHeader {
  // With is_inline: the prescaled input of a reduction, or the root's input of a broadcast. Without: the placement of
  // an allreduce whose tensors lie in an arena; the number of rows of an op that divides its rows among the ranks.
  char payload[kInlineBytes];

  void set_placement(const Placement& placement);
  void set_rows(int64_t rows);
};
static_assert(sizeof(PostHeader) == 48, "with its sequence number, 8 bytes of payload fit into the first cache line");
static_assert(sizeof(Post) == 312, "a post and its sequence number fill five cache lines");

// Reads the part of `payload` that belongs to `header`; none where it is empty.
Placement PlacementIn(const PostHeader& header, const char* payload);
int64_t RowsIn(const PostHeader& header, const char* payload);

// One line of the order log. It describes itself, so that a rank without a submission for it (one that has joined) can
// still take part.
struct Entry {
  enum class Kind : uint8_t {
    // Run the items as one collective.
    kBatch = 1,
    // As kBatch with one item, and the result is in `payload`.
    kInline = 2,
    // Signatures differ in `slot`: the pending submission of it is described to the coordinator. `counts` has one
    // number, how many ranks have one.
    kDispute = 3,
    // `slot` is no longer in use.
    kRetire = 4,
    // `rank` has left in order.
    kLeft = 5,
    // All ranks have joined; `rank` was the last.
    kAllJoined = 6,
    // The collective in `slot` cannot run, as its root has joined.
    kRootHasJoined = 7,
  };
  struct Item {
    uint32_t slot = 0;
    uint32_t reserved = 0;
    // Elements; of an alltoall those of a row. An op with `counts` does not need it.
    int64_t count = 0;
  };

  uint64_t sequence = 0;
  Kind kind = Kind::kBatch;
  OpType op = OpType::kAllreduce;
  DType dtype = DType::kF32;
  ReduceOp reduce_op = ReduceOp::kSum;
  uint16_t payload_bytes = 0;
  uint32_t group = 0;
  uint32_t slot = 0;
  int32_t rank = 0;
  int32_t root = 0;
  uint32_t attempt = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  // Batches: as Collective.arena.
  uint64_t arena = 0;
  absl::InlinedVector<Item, 2> items;
  uint8_t flags = 0;
  // As OpTraits::counts, for kStated and kShares: elements by position; rows where kRowsAreEmpty.
  absl::InlinedVector<int64_t, 8> counts;
  char payload[kInlineBytes];
};

// Carries readiness to rank 0 and the order log back to all ranks of one epoch. Each method names its caller; none
// blocks. Rings the bells of the ranks concerned.
class ReadyChannel {
 public:
  virtual ~ReadyChannel() = default;

  // Any thread of this rank, one at a time: states `post` to rank 0. False: the channel is full; try again after a
  // ring.
  virtual bool TryPost(const Post& post) = 0;
  // The holder of this rank's engine role takes the next entry of the log, in order. False: there is none yet. Do not
  // call it after the entry by which this rank leaves.
  virtual bool ReadEntry(Entry* entry) = 0;
  // Any thread of this rank: whether there is work: an entry for ReadEntry, at rank 0 a post for ReadPost, at a
  // relaying rank posts of this host's ranks to relay.
  virtual bool HasNews() const = 0;

  // Rank 0's engine role: takes the next post of `rank`. False: there is none yet.
  virtual bool ReadPost(int rank, Post* post) = 0;
  // Rank 0's engine role: appends to the log and rings the ranks in `concerned`, for which the entry may be work. Sets
  // entry.sequence. False: the log is full until a slow rank has read on, which rings rank 0.
  virtual bool TryAppend(Entry& entry, absl::Span<const int> concerned) = 0;

  // Any thread: whether the log says that `rank` has left in order.
  virtual bool HasLeft(int rank) const = 0;
  // Any thread: whether other ranks still depend on this one, because it writes the log or relays it to them. After its
  // Leave, a rank goes on until this is false.
  virtual bool IsNeeded() const = 0;
  // This rank's bell.
  virtual Doorbell& doorbell() = 0;
  // Where this rank meets all others; null: not all are on this host, or they are too many.
  virtual Rendezvous* rendezvous() { return nullptr; }
  // Any thread: whether another rank of this host has stated the CPU that this rank has stated.
  virtual bool SharesCpu() const { return false; }

  // Whether this rank carries posts and the log between hosts; never changes. Ranks of its host and leaders of others
  // summon it.
  virtual bool Relays() const { return false; }
  // Engine role, where the rank relays: whether others wait for it to do so also while it has nothing pending itself.
  virtual bool ServesOthers() const { return false; }
  // Engine role, if the rank relays: moves posts and entries between hosts, without blocking; true if anything moved.
  // An error ends the epoch. A lost connection is no error: it is reported, and no more bytes move on it.
  virtual absl::StatusOr<bool> Relay() { return false; }
  // Engine role, before it sleeps or is given back. Call it after the last Relay, with the bell's attention set. Until
  // the role's next Relay, or a transport's next Progress, input from other hosts rings this rank's bell. False: input
  // is there already; look again before sleeping.
  virtual bool Rest() { return true; }
  // Engine role: the epoch has ended on this rank, by `reason`; tells other hosts as far as that does not block.
  virtual void End(const absl::Status& reason) { (void)reason; }

  // Control thread: this rank's sign of life, and the last one of a rank on the same host.
  struct Pulse {
    uint64_t beat = 0;
    // When, by the monotonic clock of the rank that says it.
    int64_t beat_ns = 0;
    uint64_t batches = 0;
    // It can speak to the coordinator for its host.
    bool is_attached = false;
  };
  virtual void Beat(const Pulse& pulse) = 0;
  virtual Pulse ReadPulse(int rank) const = 0;
  // Any thread: what a rank of the same host has measured; this rank's own is written by its engine.
  virtual RankRecord* record(int rank) const = 0;

  // One thread, once, when the epoch has ended on this rank and before the rank acts on it: publishes `reason`. If its
  // process then ends, other ranks of the host see from this that the process is not the cause.
  virtual void StateEnd(const absl::Status& reason) = 0;
  // Any thread: what a rank on the same host has stated so; OK: nothing.
  virtual absl::Status StatedEnd(int rank) const = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ORDER_READY_CHANNEL_H_
