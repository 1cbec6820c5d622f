#ifndef FARANDOLE_SERVER_JOB_NAMES_REATTACHMENT_H_
#define FARANDOLE_SERVER_JOB_NAMES_REATTACHMENT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "farandole/v1/worker.pb.h"
#include "server/bytes/byte_account.h"
#include "server/job/names/group_table.h"
#include "server/job/names/negotiation.h"
#include "server/job/names/notice.h"
#include "server/job/names/owed_answers.h"
#include "server/job/rules/rank_set.h"

namespace farandole {

// The time after a restart of the coordinator in which the members of the running epoch come back: what they say about
// tensors is kept, and decided when all are there, in their order; what they say meanwhile comes behind. Owned by its
// RunningEpoch.
class Reattachment {
 public:
  struct Held {
    uint32_t rank;
    v1::WorkerMessage message;
    ByteCharge charge = {};
  };

  // Repeated messages follow hello at once; this is for a slow link.
  static constexpr absl::Duration kRepeatTime = absl::Milliseconds(500);

  // Waits for `missing` (not empty) for `window` from `now`, and for a third of it after each that comes back: where
  // these know many names, their hellos are read one after the other. Holds at most `most_per_rank` messages of a rank,
  // and charges them to `bytes`, which may be null.
  Reattachment(std::vector<uint32_t> missing, absl::Time now, absl::Duration window, size_t most_per_rank,
               std::shared_ptr<ByteAccount> bytes)
      : missing_(missing.begin(), missing.end()),
        until_(now + window),
        after_each_(window / 3),
        most_per_rank_(most_per_rank),
        bytes_(std::move(bytes)) {}

  // `rank` is back and knows these groups, which are all in the table; it will repeat its unanswered requests.
  void Return(uint32_t rank, const v1::Hello& hello, absl::Time now);
  // `rank` has left the epoch meanwhile: no rank waits for it any more.
  void Leave(uint32_t rank);
  // RESOURCE_EXHAUSTED: the rank has said too much already, or there is no room.
  absl::Status Hold(uint32_t rank, v1::WorkerMessage message);

  const absl::btree_set<uint32_t>& missing() const { return missing_; }
  // All members are back. If they know different groups, either an assignment or a removal did not reach all of them.
  // Only their repeated requests show which; waits kRepeatTime for these. Otherwise does not wait.
  void AwaitRepeats(const GroupTable& groups, absl::Time now);
  // Everybody is back, and nothing is awaited any more.
  bool IsSettled(absl::Time now) const { return missing_.empty() && until_ <= now; }
  // When the missing members are lost, or the wait for repeated messages ends.
  absl::Time Deadline() const { return until_; }

  // Brings the tables to where the members are: a group whose assignment or removal reached only some of them is owed
  // to the others.
  void Settle(GroupTable* groups, Negotiation* negotiation, OwedAnswers* owed, Notices* notices) const;
  // In the order in which they came.
  bool HasHeld() const { return !held_.empty(); }
  Held TakeHeld();
  // `rank` has opened another stream, and repeats its requests.
  void DropRepeated(uint32_t rank);

 private:
  // The ranks that have repeated requests for one thing, how often each.
  struct Askers {
    RankSet ranks;
    absl::flat_hash_map<uint32_t, size_t> counts;
  };
  // `rank` is not back, or not any more, and knows nothing.
  void ForgetGroupsOf(uint32_t rank);
  // Repeated requests for new groups, by their ranks.
  absl::flat_hash_map<absl::Span<const uint32_t>, Askers> AskersForGroups() const;
  // The ranks that have repeated requests to remove a group, by its number.
  absl::flat_hash_map<uint32_t, RankSet> AskersForRemovals() const;

  absl::btree_set<uint32_t> missing_;
  absl::Time until_;
  const absl::Duration after_each_;
  const size_t most_per_rank_;
  // Shared by all that is charged to the job.
  const std::shared_ptr<ByteAccount> bytes_;
  std::deque<Held> held_;
  absl::btree_map<uint32_t, size_t> held_by_rank_;
  // The ranks that are back, and those of them that know a group, by its number.
  RankSet back_;
  absl::flat_hash_map<uint32_t, RankSet> knowing_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_NAMES_REATTACHMENT_H_
