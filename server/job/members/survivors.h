#ifndef FARANDOLE_SERVER_JOB_MEMBERS_SURVIVORS_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_SURVIVORS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/types.pb.h"
#include "farandole/v1/worker.pb.h"
#include "server/job/members/roster.h"
#include "server/job/rules/event.h"

namespace farandole {

// Between two epochs of an elastic job: the members of the one that has ended. Each is awaited, or is back (its process
// has joined again and waits for the next epoch), or is gone: drained, left for good, or lost. The coordinator watches
// the old stream of an awaited member for silence, as the program may be busy for long before it notices. Owned by its
// Job.
class Survivors {
 public:
  // After an epoch that was seen to end. It awaits each member that neither left for good nor is drained or lost, for
  // as long as the coordinator hears the member, and while others wait for the next epoch (SetMissed), for
  // `return_limit`.
  Survivors(v1::Epoch epoch, std::unique_ptr<Roster> roster, absl::Duration return_limit, absl::Time now);
  // After a restart of the coordinator: no member is watched before it has shown itself. Members that have not within
  // `window`, and within a third of it after the last one that has, are lost.
  Survivors(v1::Epoch epoch, std::unique_ptr<Roster> roster, absl::Duration return_limit, absl::Duration window,
            absl::Time now);
  Survivors(const Survivors&) = delete;
  Survivors& operator=(const Survivors&) = delete;

  const v1::Epoch& epoch() const { return epoch_; }
  const Roster& roster() const { return *roster_; }
  bool IsAwaited(uint32_t rank) const { return awaited_.contains(rank); }
  bool IsBack(uint32_t rank) const { return back_.contains(rank); }
  size_t awaited() const { return awaited_.size(); }
  size_t back() const { return back_.size(); }
  // Some left for good and were not drained: the program is over.
  bool IsFinishing() const { return roster_->IsFinishing(); }

  // An awaited member opens a stream anew; the one that it had before, or 0.
  StreamId Attach(uint32_t rank, StreamId stream, absl::Time now);
  // The present stream of a rank has ended. Why the rank is lost by that, "" if it is not.
  std::string Detach(uint32_t rank, const std::string& evidence, absl::Time now);
  void Hear(uint32_t rank, absl::Time now) { roster_->Hear(rank, now); }
  void HearHost(uint32_t rank, absl::Time now) { roster_->HearHost(rank, now); }
  void Feel(const v1::Pulse& pulse, absl::Time now) { roster_->Feel(pulse, now); }
  // A peer reports that the rank is lost. The report counts only if the rank's stream has ended too, because a survivor
  // also closes its connections to peers when it joins again. Returns the reason if the rank is now lost, else "".
  std::string Accuse(uint32_t rank, const std::string& claim);
  // The rank's process waits for the next epoch; the stream that it had in the last one, or 0.
  StreamId Return(uint32_t rank);
  // `is_missed`: workers in the lobby wait for the awaited survivors, so the return limit runs.
  void SetMissed(bool is_missed, absl::Time now);
  // It does not wait any more, and has the silence limit to come again.
  void Await(uint32_t rank, absl::Time now);
  // The rank says that it leaves, to join again or not.
  void Leave(uint32_t rank, bool returns, absl::Time now);
  void Drain(uint32_t rank);
  void Lose(uint32_t rank, const std::string& reason);
  // The coordinator itself did not run for a while: no member is lost by silence until `judged_from`.
  void Excuse(absl::Time judged_from);

  // The awaited members that are lost by silence or absence.
  std::vector<Roster::Loss> FindLosses(absl::Time now) const;
  // When it will be, if nothing is heard.
  absl::Time Deadline() const;
  // Those awaited, ascending; at most eight and a count: "rank 1 (worker 4711 on host a), rank 2 (...)".
  std::string NameAwaited() const;
  // The status of each member that is not back: "returning", "left", or "lost: ...".
  std::vector<v1::WorkerStatus> Workers(absl::Time now) const;

 private:
  // Neither awaited nor back any more.
  void Drop(uint32_t rank);

  const v1::Epoch epoch_;
  const std::unique_ptr<Roster> roster_;
  const absl::Duration return_limit_;
  // A member that has not joined again by then is lost; InfiniteFuture: no worker waits for it.
  absl::Time return_until_ = absl::InfiniteFuture();
  absl::btree_set<uint32_t> awaited_;
  absl::btree_set<uint32_t> back_;
  // After a restart: awaited, and has not shown itself.
  absl::btree_set<uint32_t> unseen_;
  absl::Duration window_;
  absl::Time unseen_until_ = absl::InfiniteFuture();
  // Peers' claims against ranks whose stream is open.
  absl::btree_map<uint32_t, std::string> accused_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_MEMBERS_SURVIVORS_H_
