#ifndef FARANDOLE_SERVER_JOB_NAMES_GROUP_TABLE_H_
#define FARANDOLE_SERVER_JOB_NAMES_GROUP_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "farandole/v1/worker.pb.h"
#include "server/bytes/byte_account.h"
#include "server/job/names/notice.h"
#include "server/job/rules/actions.h"
#include "server/job/rules/ballot.h"

namespace farandole {

// The groups of one epoch. Group 0 is all ranks, and always there; the others are made and removed when every rank has
// asked for the same in the same place of its order. Owned by its RunningEpoch.
class GroupTable {
 public:
  // Requests of a rank that wait for other ranks are at most so many: its threads make groups one after the other.
  static constexpr uint32_t kMostWaiting = 16;

  // Groups besides group 0 are at most `max_groups`; the first gets `first_number` (>= 1). `bytes`, which may be null,
  // is charged for all that is kept.
  GroupTable(uint64_t epoch, uint32_t size, uint32_t max_groups, uint32_t first_number,
             std::shared_ptr<ByteAccount> bytes);

  // The group's ranks, ascending; null: there is no such group.
  const std::vector<uint32_t>* Find(uint32_t number) const;
  bool Contains(uint32_t number, uint32_t rank) const;
  // Groups besides group 0, by number.
  const absl::btree_map<uint32_t, std::vector<uint32_t>>& groups() const { return groups_; }
  // Numbers below this one have been given.
  uint32_t next_number() const { return next_number_; }

  // The next request of `rank`; answers are appended to `notices` when all ranks have made theirs, and the number of a
  // group that was removed to `removed`. A request that was refused before is refused again: its rank may not have got
  // the answer.
  //   RESOURCE_EXHAUSTED  too many requests of the rank wait for other ranks, or there is no room for this one, unless
  //                       another rank has asked for the same
  absl::Status Request(uint32_t rank, const v1::GroupRequest& request, Notices* notices,
                       std::vector<uint32_t>* removed);
  // `rank` has left: every submission that waits for it, and every later one, is answered with an error that starts
  // with `who` ("rank 1 (worker 4711 on host a)").
  void Leave(const std::string& who, Notices* notices);
  // Forgets the unanswered requests of `rank`, which will send them again.
  void Forget(uint32_t rank);

  // A group that a member knows from before the coordinator's restart.
  //   INVALID_ARGUMENT  it cannot be a group of this epoch, or another member knows other ranks under its number
  //   (named)
  absl::Status Adopt(const v1::Group& group);
  // A refusal that a member was told before the coordinator's restart.
  void AdoptRefusal(const v1::GroupAssigned& refused);
  // Takes a group out without asking its ranks.
  void Drop(uint32_t number);

  // Tells a rank which the group's ranks are; of none where there is no such group. Ranks share what tells them of one.
  SharedMessage Tell(uint32_t number);

 private:
  struct Asked {
    v1::GroupRequest request;
    ByteCharge charge = {};
  };
  using Round = Ballot<Asked>;
  static bool SameRequest(const Asked& a, const Asked& b);

  v1::CoordinatorMessage Assigned(uint32_t number, const std::vector<uint32_t>& ranks) const;
  // Of a group that is kept, and of the message that tells of it.
  static int64_t BytesOf(const std::vector<uint32_t>& ranks);
  void Keep(uint32_t number, std::vector<uint32_t> ranks);
  // Charges the request in this round.
  absl::Status ChargeFor(size_t place, Asked* asked) const;

  void Decide(const Round& round, Notices* notices, std::vector<uint32_t>* removed);
  // Why `request` cannot be granted; "" if it can.
  std::string FaultOfRequest(const v1::GroupRequest& request) const;
  // Why there is no room for this group; "" if there is.
  std::string FaultOfRoom(const v1::GroupRequest& request) const;
  std::string FaultOfRanks(const google::protobuf::RepeatedField<uint32_t>& ranks) const;
  v1::CoordinatorMessage Refusal(const v1::GroupRequest& request, const std::string& error) const;
  void KeepRefusal(uint64_t ordinal, const std::string& error);

  const uint64_t epoch_;
  const uint32_t max_groups_;
  std::vector<uint32_t> all_;
  // Shared by all that is charged to the job.
  const std::shared_ptr<ByteAccount> bytes_;
  absl::btree_map<uint32_t, std::vector<uint32_t>> groups_;
  ByteCharge groups_charge_;
  // By number, while some rank is to be told.
  absl::flat_hash_map<uint32_t, std::weak_ptr<const v1::CoordinatorMessage>> told_;
  const uint32_t first_number_;
  uint32_t next_number_;
  // Unanswered requests by place in the order; the first is number answered_.
  std::deque<Round> rounds_;
  uint64_t answered_ = 0;
  // Why the last rounds that were refused were, by the ordinal of their requests.
  absl::btree_map<uint64_t, std::string> refusals_;
  ByteCharge refusals_charge_;
  // By rank: the place that its next request has.
  std::vector<uint64_t> next_;
  // The rank that left first; "" if none did.
  std::string leaver_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_NAMES_GROUP_TABLE_H_
