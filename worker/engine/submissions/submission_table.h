#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_SUBMISSION_TABLE_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_SUBMISSION_TABLE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "farandole/v1/flight.pb.h"
#include "farandole/v1/worker.pb.h"
#include "worker/core/clock.h"
#include "worker/engine/submissions/change_notice.h"
#include "worker/engine/submissions/disputes.h"
#include "worker/engine/submissions/handle_pool.h"
#include "worker/engine/submissions/held_parts.h"
#include "worker/engine/submissions/name_table.h"
#include "worker/engine/submissions/offer.h"
#include "worker/engine/submissions/orderer_news.h"
#include "worker/engine/submissions/own_join.h"
#include "worker/engine/submissions/post_queue.h"
#include "worker/engine/submissions/slot_negotiation.h"
#include "worker/engine/submissions/submission.h"
#include "worker/engine/submissions/timeline.h"
#include "worker/measure/flight_recorder.h"
#include "worker/measure/rank_meter.h"
#include "worker/order/ready_channel.h"

namespace farandole {

// All submissions of one rank in one epoch, with the names, slots, groups and handles they go by. Thread-safe: one
// lock, held briefly and never while waiting. Slots are negotiated through `link`; null where the rank is alone and
// gives them itself. Tensors in one of the `arenas` are stated so.
class SubmissionTable {
 public:
  // `timeline` (may be null) records each completion; outlives the table. Of new names in a group the coordinator is
  // asked for `most_asked` at a time; the others wait for its answers. `meter` (null: the table's own) counts steps.
  // Records all submissions of the epoch in `flight`, which outlives the table (null: in memory of its own).
  SubmissionTable(int rank, int size, ReadyChannel* channel, ControlLink* link, ClockNs clock = MonotonicNs,
                  const ArenaTable* arenas = nullptr, int64_t next_handles = 0, Timeline* timeline = nullptr,
                  size_t most_asked = 16384, RankMeter* meter = nullptr, FlightPage* flight = nullptr,
                  uint64_t epoch = 0);

  // Checks and accepts a request, and posts or negotiates it. The handle stays valid until Release.
  //   INVALID_ARGUMENT: the request is not valid, or one of this name and operation is pending; ABORTED and others:
  //   the epoch has ended.
  absl::StatusOr<int64_t> Submit(const Request& request);
  // As Submit and BeginWaiting, for the thread that has the engine's role and drives it until the submission is
  // complete or another rank must act.
  absl::StatusOr<Submission*> SubmitAndBeginWaiting(const Request& request);
  // Submissions that are captured in a CUDA graph stay here until the thread that captures waits: CUDA wants one thread
  // at a time about a graph, and the collectives are captured by others. This gives them to the ranks; those whose
  // capture has ended fail. Whether there were any.
  bool EnterCaptured();
  // Of them, those that are not complete.
  int captured() const { return captured_count_.load(); }
  // Finds a submission for a waiting thread, which must call DoneWaiting with it. Null: no such handle.
  Submission* BeginWaiting(int64_t handle);
  // Gives whether the submission is complete, or its error, and releases it if it is complete and `release` is set.
  absl::StatusOr<bool> DoneWaiting(Submission* submission, bool release);
  // Forgets a handle; a pending submission goes on by itself.
  void Release(int64_t handle);
  // Notified when anything has completed, or a group, a name or the epoch has ended.
  ChangeNotice& notice() { return notice_; }

  // Control thread: answers of the coordinator.
  void OnSlotAssigned(absl::string_view name, uint32_t group, uint32_t slot);
  void OnMismatch(const Disagreement& told);
  void OnGroupAdded(uint32_t group, std::vector<int> ranks);
  void OnGroupRemoved(uint32_t group);
  // Control thread, after a reattachment: states unanswered submissions again.
  void AskAgain();
  // Ends all submissions that do not run, and all that will come, with `reason`. The first reason stays.
  void End(const absl::Status& reason);

  // Any thread: states that this rank leaves.
  void PostLeave();

  // Any thread: posts what did not fit into the channel; true if any went.
  bool FlushPosts();
  // Engine role.
  bool HasUnposted() const { return posts_.size() > 0; }
  std::vector<OrdererNews> TakeNews();
  bool HasOrdererNews() const { return !news_.IsEmpty(); }
  // Whether a submission waits in the rendezvous; if so, later ones are not posted yet.
  bool has_offer() const { return offer_.is_open(); }
  // The round is agreed: computes and gives its result. The submission's bytes and slot; -1: it has ended meanwhile.
  // Here and below `now_ns` is for the flight recorder, which takes a time that has been read lately.
  int64_t CompleteOffered(uint32_t* slot, int64_t now_ns);
  // The round is declined: the submission goes the way of the log.
  void PostOffered();
  // Others wait in the rendezvous, and this rank for what they have not submitted: declines. False: they do not.
  bool DeclineOffers();
  // The submissions that a batch's items stand for, now running. A null: this rank has none for the item.
  void Take(const Entry& entry, int64_t now_ns, absl::InlinedVector<Submission*, 2>* taken);
  void Complete(absl::Span<Submission* const> submissions, const absl::Status& status, int64_t now_ns);
  // Completes the submission of a kInline entry with the entry's payload. Its bytes; -1: this rank has none for it.
  int64_t CompleteInline(const Entry& entry, int64_t now_ns);
  void OnDispute(uint32_t slot, uint32_t attempt, uint32_t disputants);
  // The broadcast of a kRootHasJoined entry ends.
  void OnRootHasJoined(const Entry& entry);
  // All ranks have joined; `rank` was the last.
  void OnAllJoined(int rank);
  // Whether this rank has joined, and not all have.
  bool HasJoined() const;
  void OnRetired(uint32_t slot);
  // `rank` has left: groups with it end, except for disputes, which it has described before and which are answered.
  void OnLeft(int rank, const std::string& who);

  // A number for the table that follows this one in its process, which then gives no handle that this one has given.
  int64_t next_handles() const;

  // Any thread.
  int64_t pending() const { return pending_count_.load(); }
  // Submissions that have completed, well or not. One that is counted is complete for the thread that asks for it then.
  uint64_t completions() const { return completions_.load(); }
  // When this rank submitted last; 0: never.
  int64_t last_submitted_ns() const { return last_submitted_ns_.load(std::memory_order_relaxed); }
  absl::Status ended() const;
  // Other ranks that have left, in that order.
  std::vector<int> left() const;
  // Ranks of the group; NOT_FOUND: there is no such group.
  absl::StatusOr<std::vector<int>> RanksOf(uint32_t group) const;
  // Whether this rank has heard that the group is no more.
  bool WasRemoved(uint32_t group) const;
  bool IsIdle(uint32_t group) const;

  // All but the epoch, the inquiry and the group requests.
  v1::StallReport ReadActivity(int64_t now_ns) const;
  // As the function of this name.
  v1::FlightRecords ReadFlight(size_t most, int64_t now_ns) const;
  // Age of the oldest pending submission; 0: none.
  int64_t OldestPendingAge(int64_t now_ns) const;
  using SlotName = NameTable::SlotName;
  // For the hello of a reattachment: the last statement about each name without a slot, and about each slot.
  std::vector<Disagreement> Told() const;
  std::vector<SlotName> Slots() const;
  std::map<uint32_t, std::vector<int>> Groups() const;

  struct Counters {
    uint64_t submissions = 0;
    uint64_t completions = 0;
    uint64_t negotiation_messages = 0;
  };
  Counters counters() const;

 private:
  using Name = NameTable::Name;
  using Group = NameTable::Group;

  // For callers that may recycle submissions: releases their GPU objects after the lock. The driver may block a thread
  // that releases them while work on its streams hangs, and the threads that end such work need the lock first.
  class Lock {
   public:
    explicit Lock(SubmissionTable* table) : table_(table), held_(table->mutex_) {}
    ~Lock() { dropped_ = table_->pool_.TakeDropped(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    SubmissionTable* const table_;
    // Destroyed after `held_`.
    std::vector<HandlePool::OnGpu> dropped_;
    const std::lock_guard<std::mutex> held_;
  };

  // Captured requests go to EnterCaptured.
  absl::StatusOr<Submission*> SubmitLocked(const Request& request, bool is_driven);
  absl::StatusOr<Group*> Check(const Request& request);
  Submission* Accept(const Request& request, const Group& group, absl::string_view name);
  void Enter(Submission* submission, Name* name);
  // Of a further submission of a grouped call: holds it until the ranks agree about the first one. If they do already,
  // gives it to the ranks; if the first one has failed, fails it.
  void EnterOrHold(Submission* submission, Name* name);
  // The ranks agree about `first`, or it has failed with `status`: gives them the tensors held for it, or fails those.
  void EnterHeld(const Submission& first, const absl::Status& status);
  void AssignSlot(Name* name, uint32_t slot);
  Post MakePost(const Submission& submission);
  void DropOffer(const absl::Status& reason);
  // States that this rank has joined, as soon as all that it has submitted before is posted.
  void PostJoin();
  void Send(const Post& post) { posts_.Send(post, offer_.submission() != nullptr); }
  void Finish(Submission* submission, const absl::Status& status);
  // `name`: the submission's; null where it is not known any more. `now_ns`: for the flight recorder.
  void Finish(Submission* submission, Name* name, const absl::Status& status, int64_t now_ns);
  // Ends the group's submissions that are posted or wait for a slot.
  void FailPending(uint32_t group, const absl::Status& reason);
  void FailDisputed(uint32_t group, const absl::Status& reason);

  const int rank_;
  ReadyChannel* const channel_;
  const ClockNs clock_;
  const ArenaTable* const arenas_;
  Timeline* const timeline_;
  RankMeter own_meter_;
  RankMeter& meter_;
  FlightRecorder flight_;

  mutable std::mutex mutex_;
  ChangeNotice notice_;
  absl::Status ended_;
  std::vector<int> left_;
  NameTable names_;
  OwnJoin join_;
  SlotNegotiation negotiation_;
  Disputes disputes_;
  HandlePool pool_;
  HeldParts held_;
  PostQueue posts_;
  Offer offer_;
  OrdererNewsQueue news_;
  std::atomic<uint64_t> completions_{0};
  std::atomic<int64_t> pending_count_{0};
  std::atomic<int> captured_count_{0};
  std::vector<int64_t> captured_;  // handles that wait for EnterCaptured
  uint32_t last_own_slot_ = 0;
  std::atomic<int64_t> last_submitted_ns_{0};
  Counters counters_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_SUBMISSION_TABLE_H_
