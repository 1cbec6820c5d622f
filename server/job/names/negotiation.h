#ifndef FARANDOLE_SERVER_JOB_NAMES_NEGOTIATION_H_
#define FARANDOLE_SERVER_JOB_NAMES_NEGOTIATION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "server/bytes/byte_account.h"
#include "server/job/names/group_table.h"
#include "server/job/names/notice.h"
#include "server/job/rules/ballot.h"
#include "server/job/rules/rank_set.h"

namespace farandole {

// Turns names into slots within one epoch: gathers the Ready of a group's ranks, checks that they agree, and numbers
// them. Owned by its RunningEpoch; borrows that epoch's groups, which must outlive it.
class Negotiation {
 public:
  // A tensor for which ranks of its group are still missing.
  struct Gathering {
    std::string name;
    uint32_t group = 0;
    v1::OpType op = v1::OP_TYPE_ALLREDUCE;
    absl::Time since;
    RankSet present;
    // All have spoken, and no slot is free.
    bool lacks_slot = false;
  };

  // At most `max_slots` slots, and as many names that are being gathered; the first slot gets `first_slot` (>= 1). A
  // name on which all agree waits until a slot is free. `bytes`, which may be null, is charged for all that
  // is kept: a statement without room is refused, unless another rank has made the same.
  Negotiation(uint64_t epoch, uint32_t max_slots, uint32_t first_slot, const GroupTable& groups,
              std::shared_ptr<ByteAccount> bytes);
  Negotiation(const Negotiation&) = delete;
  Negotiation& operator=(const Negotiation&) = delete;

  // Takes a Ready of `rank`, whose name is within bounds; appends the messages that follow to `notices`.
  void Add(uint32_t rank, const v1::Ready& ready, absl::Time now, Notices* notices);
  // The slot's name is free again; a name that waits for a slot gets one.
  void Retire(uint32_t slot, Notices* notices);
  // The group is gone: so are its slots, and its waiting submissions are answered.
  void RemoveGroup(uint32_t group, Notices* notices);
  // A slot that a member knows from before the coordinator's restart; nothing where its group is gone.
  //   INVALID_ARGUMENT  another member knows the number as something else (both named), or a bound is exceeded, or the
  //   number cannot have been given
  absl::Status Adopt(const v1::SlotAssigned& slot);

  // Takes a mismatch that a member heard before the coordinator's restart: a rank that states the same, or an earlier
  // value, hears it again. Kept for as many names and slots as there may be slots.
  void AdoptTold(const v1::Mismatch& told);

  // One event may decide thousands of names, for thousands of ranks each: the last rank that joins, or the end of a
  // group. The call that takes it decides until some kMostSends messages follow, and leaves the others to Work.
  static constexpr size_t kMostSends = 16384;
  bool HasWork() const {
    return !complete_.empty() || !removed_groups_.empty() || (!lacking_slot_.empty() && slots_.size() < max_slots_);
  }
  // Does what was left, or as much of it as some kMostSends messages follow from.
  void Work(Notices* notices);

  // Slots in use, as they were assigned.
  const absl::btree_map<uint32_t, v1::SlotAssigned>& slots() const { return slots_; }
  // Numbers below this one have been given.
  uint32_t next_slot() const { return next_slot_; }
  uint32_t max_slots() const { return max_slots_; }
  // When the oldest gathering that is younger than `after` began; InfiniteFuture: there is none.
  absl::Time OldestSince(absl::Time after) const;
  // The gatherings that began at `until` or before, oldest first, at most `most` of them.
  std::vector<Gathering> Gatherings(absl::Time until, size_t most) const;

 private:
  struct Statement {
    v1::Ready ready;
    // Why the ready is wrong by itself (then its shapes are dropped); "" if it is not.
    std::string fault;
    ByteCharge charge = {};
  };
  static bool SameStatement(const Statement& a, const Statement& b);

  // Group; name; disputed slot (0: a new name); the attempt of a dispute, or the ordinal of a new name; and how often
  // all ranks had joined before (always 0 for a dispute).
  using Key = std::tuple<uint32_t, std::string, uint32_t, uint32_t, uint32_t>;
  struct Pending {
    absl::Time since;
    Ballot<Statement> ballot;
    // As Ready has them, the greatest of all.
    uint32_t disputants = 0;
    // Ranks of the group that nobody waits for, since they have joined, and that have not stated it; none in a dispute.
    size_t excused = 0;
    // Where its key is in lacking_slot_, as all have spoken and agree; 0: it is not there. The same of complete_.
    uint64_t lacks_slot = 0;
    uint64_t is_complete = 0;
  };
  using Name = std::pair<uint32_t, std::string>;

  // `rank` has called join(): decides the pending names for which only this rank was missing.
  void Join(uint32_t rank, uint32_t joins, Notices* notices);
  // Whether nobody waits for the rank's statement, since it has joined.
  bool IsExcused(uint32_t rank, const Key& key) const;
  // The rank counts as having joined as often as `joins` says from now on; nullopt: as not having joined. Names for
  // which only this rank was missing are complete.
  void SetJoined(uint32_t rank, std::optional<uint32_t> joins);
  // Whether all awaited ranks have stated it. Its group must be there.
  bool IsComplete(const Key& key, const Pending& pending) const;
  // Why `ready` cannot be gathered at all, as a sentence; "" if it can.
  std::string Refusal(uint32_t rank, const v1::Ready& ready, const Key& key) const;
  // Charges the rank's statement. Why it cannot be kept, as a sentence; "" if it can.
  std::string ChargeFor(uint32_t rank, const Key& key, Statement* statement) const;
  // All have spoken: assigns a slot, or says why not, and forgets the gathering; without a free slot it stays.
  void Decide(const Key& key, Notices* notices);
  void Assign(const Key& key, v1::OpType op, Notices* notices);
  // The slot is in use from now on.
  void Keep(const v1::SlotAssigned& slot);
  // Frees the slot's number and name.
  void Free(uint32_t slot);
  // Does one piece of the work that is left (see HasWork).
  void WorkOnce(Notices* notices);
  void ForgetOneOf(uint32_t removed_group, Notices* notices);
  // Why the ranks' statements make no slot; "" if they do.
  std::string FaultOfBallot(const Key& key, const Ballot<Statement>& ballot) const;
  void Forget(const Key& key);
  // `is_decided`: the ranks have disagreed; else the answer goes to this rank alone.
  v1::CoordinatorMessage MismatchFor(const Key& key, const std::string& claim, bool is_decided) const;
  // The answer that an earlier life of the coordinator sent the rank's peers on the same statement.
  std::optional<v1::CoordinatorMessage> ToldBefore(const v1::Ready& ready) const;

  const uint64_t epoch_;
  const uint32_t max_slots_;
  const GroupTable& groups_;
  const uint32_t first_slot_;
  // Shared by all that is charged to the job.
  const std::shared_ptr<ByteAccount> bytes_;
  uint32_t next_slot_;
  // Of slots_; of all that members were told before a restart, until the epoch ends.
  ByteCharge slots_charge_;
  ByteCharge told_charge_;
  absl::btree_map<uint32_t, v1::SlotAssigned> slots_;
  absl::flat_hash_map<Name, uint32_t> slot_of_;
  // Group and slot.
  absl::btree_set<std::pair<uint32_t, uint32_t>> slots_by_group_;
  absl::btree_map<Key, Pending> pending_;
  // The ranks that have joined and stated nothing since, and how often all had joined before.
  absl::btree_map<uint32_t, uint32_t> joined_;
  // By name: of names without a slot. By slot: of disputes.
  absl::flat_hash_map<Name, v1::Mismatch> told_of_name_;
  absl::flat_hash_map<uint32_t, v1::Mismatch> told_of_slot_;
  // The keys of pending_, oldest first.
  std::set<std::pair<absl::Time, Key>> oldest_first_;
  // The keys of those that wait for a slot only, first come first served, and of those that became complete as a rank
  // joined, and that are to be decided. By numbers that are greater than those before.
  absl::btree_map<uint64_t, Key> lacking_slot_;
  absl::btree_map<uint64_t, Key> complete_;
  uint64_t last_place_ = 0;
  // Groups of which names are left to be answered.
  std::deque<uint32_t> removed_groups_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_NAMES_NEGOTIATION_H_
