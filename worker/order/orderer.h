#ifndef FARANDOLE_WORKER_ORDER_ORDERER_H_
#define FARANDOLE_WORKER_ORDER_ORDERER_H_

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "worker/order/ready_channel.h"

namespace farandole {

// Decides what the order log says: matches the ranks' posts, fuses ready slots, and names mismatches. Pure: posts and
// slots in, entries out. Kept by rank 0's engine role; not thread-safe.
//
// A slot is ready when every rank of its group has a post in it that was not ordered yet, or has joined. Ranks' posts
// in a slot are paired in order.
class Orderer {
 public:
  struct Options {
    // Most bytes of the tensors of one rank in a fused batch; a larger single tensor is a batch by itself.
    int64_t fusion_bytes = 64 << 20;
    // Most tensors of a fused batch.
    int fusion_items = 1024;
    // Most slots that are kept while some are idle: those that were idle for longest are retired first.
    size_t slots = 24576;
  };

  Orderer(int size, Options options);

  // A group of ascending ranks; number 0, all ranks, is there from the start.
  void AddGroup(uint32_t number, std::vector<int> ranks);
  // Forgets the group's slots and their posts.
  void RemoveGroup(uint32_t number);
  // From now on posts in `slot` can be ordered. Posts that came before are kept. Slots are added in ascending order;
  // one that is not above the last was added before, and stays as it is.
  void AddSlot(uint32_t slot, uint32_t group);
  // Takes a post. Returns whether a slot has become ready by it.
  bool OnPost(int rank, const Post& post);
  // A rendezvous used the slot without posts: moves it to the end of the list of idle slots.
  void OnUsed(uint32_t slot);

  // The next entry, without its sequence; nullopt: nothing is ready. With `collectives` false, batches that rank 0
  // takes part in and that need a transport are left for later, so that more can be fused into them; everything else is
  // given.
  std::optional<Entry> Next(bool collectives);
  // Whether Next would give something with `collectives`.
  bool HasReady() const { return !urgent_.empty() || !foreign_.empty() || !batches_.empty() || !notices_.empty(); }
  // Bytes of rank 0's tensors, one rank's, in the batches that `collectives` leaves for later.
  int64_t ready_bytes() const { return ready_bytes_; }
  // The ranks of a group; empty if it is not known.
  absl::Span<const int> ranks(uint32_t group) const;
  // Whether a group without rank 0 exists, whose posts rank 0 must attend to at any time.
  bool HasForeignGroup() const { return foreign_groups_ > 0; }

 private:
  // A post, with no more memory than it needs: there is one for each rank and slot.
  struct Kept : PostHeader {
    explicit Kept(const Post& post) : PostHeader(post), payload(post.payload, post.payload + post.payload_bytes) {}
    absl::InlinedVector<char, 24> payload;
  };
  // Posts of one rank in one slot, oldest first; rarely more than one.
  using Queue = absl::InlinedVector<Kept, 1>;
  struct Group {
    std::vector<int> ranks;
    bool broken = false;  // one of its ranks has left
    bool has_rank_0 = false;
    // Queues that idle slots had; each has an empty queue for each rank.
    std::vector<std::vector<Queue>> spare_posts;
  };
  struct Slot {
    uint32_t group = 0;
    uint32_t disputes = 0;
    // By position in the group; empty while the slot has no post, so that an idle slot costs the same in a job of any
    // size.
    std::vector<Queue> posts;
    // Positions without a post whose rank has not joined.
    int missing = 0;
    bool is_idle = false;
    // In idle_, or else in busy_.
    std::list<uint32_t>::iterator position;
  };

  // Puts a post where it belongs; true: it is the first of its rank in the slot, which is then to be
  // evaluated.
  bool Accept(int rank, const Post& post);
  void SetBusy(Slot& slot, Group& group);
  // It has no post any more.
  void SetIdle(Slot& slot, Group& group);
  // Counts the missing posts, and queues the slot if none is. Returns whether it is ready.
  bool Evaluate(uint32_t number, Slot& slot);
  // Retires idle slots until `most` are left, or none is idle.
  void RetireIdle(size_t most);
  void AddRetireNotice(uint32_t number);
  void OnLeave(int rank);
  void OnJoin(int rank, int64_t returned);
  // Appends kAllJoined if all ranks have joined and no post waits for a slot that is still unknown.
  void TellAllJoined();
  bool Agrees(const Slot& slot) const;
  // Whether the op of a ready slot has a root, and the root has joined, so that it contributes no data.
  bool RootHasJoined(const Slot& slot) const;
  // Whether the same ranks have posts in both; the others have joined.
  bool HaveSameRanks(const Slot& a, const Slot& b) const;
  // Some rank's oldest post; the slot is ready.
  const Kept& Front(const Slot& slot) const;
  void PopFronts(uint32_t number, Slot& slot);
  Entry Describe(const Slot& slot) const;
  // The arena in which all ranks have put the slot's tensors, at equal offsets; 0: none.
  uint64_t ArenaOf(const Slot& slot) const;
  Entry MakeUrgent(uint32_t number);
  Entry MakeInline(uint32_t number, Slot& slot);
  Entry MakeDispute(uint32_t number, Slot& slot);
  int64_t BytesOf(const Slot& slot) const;
  Entry MakeBatch(std::deque<uint32_t>& ready);
  bool CanFuse(const Entry& batch, const Slot& slot, int64_t bytes) const;

  const int size_;
  const Options options_;
  absl::flat_hash_map<uint32_t, Group> groups_;
  absl::flat_hash_map<uint32_t, Slot> slots_;
  // Posts in slots that rank 0 was not told of yet.
  absl::flat_hash_map<uint32_t, std::vector<std::pair<int, Post>>> early_;
  uint32_t last_slot_ = 0;
  std::list<uint32_t> idle_;  // slots that were used and have no posts, longest idle first
  std::list<uint32_t> busy_;  // all others, in no order
  // Ready slots, in the order in which they became so.
  std::deque<uint32_t> urgent_;   // inline results and disputes
  std::deque<uint32_t> foreign_;  // batches of groups without rank 0
  std::deque<uint32_t> batches_;
  int64_t ready_bytes_ = 0;
  std::deque<Entry> notices_;  // kLeft, kRetire, kAllJoined
  std::vector<bool> joined_;
  // By rank: how many of its posts hit a retired slot. The rank gets these submissions back and posts them again. A
  // kJoin whose count is lower was sent before that, so the orderer ignores it.
  std::vector<int64_t> stale_;
  // The number of ranks in joined_ for which no kAllJoined was queued yet.
  int joined_count_ = 0;
  int last_joined_ = 0;
  int foreign_groups_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ORDER_ORDERER_H_
