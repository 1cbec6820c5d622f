#ifndef FARANDOLE_SERVER_JOB_REATTACHMENT_H_
#define FARANDOLE_SERVER_JOB_REATTACHMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "server/job/group_table.h"
#include "server/job/negotiation.h"
#include "server/job/owed_answers.h"
#include "server/job/post.h"

namespace farandole {

// The time after a restart of the coordinator in which the members of the running epoch come back: what they say about tensors is
// kept, and decided when all are there. Owned by its RunningEpoch.
class Reattachment {
 public:
  struct Held {
    uint32_t rank;
    v1::WorkerMessage message;
  };

  // Waits for `missing` (not empty) until `until`; holds at most `most_per_rank` messages of a rank.
  Reattachment(std::vector<uint32_t> missing, absl::Time until, size_t most_per_rank)
      : missing_(missing.begin(), missing.end()), until_(until), most_per_rank_(most_per_rank) {}

  // `rank` is back and knows these groups; whatever it said before it will say again.
  void Return(uint32_t rank, const v1::Hello& hello);
  // RESOURCE_EXHAUSTED: the rank has said too much already.
  absl::Status Hold(uint32_t rank, v1::WorkerMessage message);

  const absl::btree_set<uint32_t>& missing() const { return missing_; }
  absl::Time until() const { return until_; }

  // Brings the tables to where the members are: a group whose assignment or removal reached only some of them is owed to the others.
  void Settle(GroupTable* groups, Negotiation* negotiation, OwedAnswers* owed, Posts* posts) const;
  // In the order in which they came.
  const std::vector<Held>& held() const { return held_; }

 private:
  size_t HeldRequestsFor(uint32_t rank, const std::vector<uint32_t>& ranks) const;

  absl::btree_set<uint32_t> missing_;
  const absl::Time until_;
  const size_t most_per_rank_;
  std::vector<Held> held_;
  absl::btree_map<uint32_t, size_t> held_by_rank_;
  absl::btree_map<uint32_t, absl::btree_set<uint32_t>> groups_known_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_REATTACHMENT_H_
