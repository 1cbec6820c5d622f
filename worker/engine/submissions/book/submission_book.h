#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_SUBMISSION_BOOK_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_SUBMISSION_BOOK_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "worker/core/clock.h"
#include "worker/engine/submissions/book/change_notice.h"
#include "worker/engine/submissions/book/disputes.h"
#include "worker/engine/submissions/book/handle_pool.h"
#include "worker/engine/submissions/book/held_parts.h"
#include "worker/engine/submissions/book/name_table.h"
#include "worker/engine/submissions/book/offer.h"
#include "worker/engine/submissions/book/orderer_news.h"
#include "worker/engine/submissions/book/own_join.h"
#include "worker/engine/submissions/book/post_queue.h"
#include "worker/engine/submissions/book/slot_negotiation.h"
#include "worker/engine/submissions/book/submission.h"
#include "worker/engine/submissions/book/timeline.h"
#include "worker/measure/flight_recorder.h"
#include "worker/measure/rank_meter.h"
#include "worker/order/ready_channel.h"

namespace farandole {

// Pointers outlive the table; only the channel's may not be null.
struct SubmissionOptions {
  int rank = 0;
  int size = 1;
  ReadyChannel* channel = nullptr;
  // The way to the coordinator, which gives names their slots. Null: the rank is alone, and gives them itself.
  ControlLink* link = nullptr;
  ClockNs clock = MonotonicNs;
  // Tensors in one of these are stated so.
  const ArenaTable* arenas = nullptr;
  // As SubmissionTable::next_handles of the process's last table; 0: it had none.
  int64_t next_handles = 0;
  // Records each completion.
  Timeline* timeline = nullptr;
  // The most new names of a group that the coordinator is asked for at a time; the others wait for its answers.
  size_t most_asked = 16384;
  // Counts steps; null: the table's own.
  RankMeter* meter = nullptr;
  // Records all submissions of the epoch; null: in memory of its own.
  FlightPage* flight = nullptr;
  uint64_t epoch = 0;
};

// One rank's submissions in one epoch, with the names, slots, groups and handles they go by, and the lock that guards
// them. SubmissionTable has it, and shares it with CoordinatorAnswers and LogOutcomes. Functions need the lock.
struct SubmissionBook {
  using Name = NameTable::Name;
  using Group = NameTable::Group;

  // For callers that may recycle submissions: releases their GPU objects after the lock. The driver may block a thread
  // that releases them while work on its streams hangs, and the threads that end such work need the lock first.
  class Lock {
   public:
    explicit Lock(SubmissionBook* book) : book_(book) { book->mutex.lock(); }
    ~Lock() {
      if (ABSL_PREDICT_FALSE(book_->pool.HasDropped())) {
        book_->UnlockAndDrop();
      } else {
        book_->mutex.unlock();
      }
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    SubmissionBook* const book_;
  };

  explicit SubmissionBook(const SubmissionOptions& options);

  // Posts the submission, or asks for a slot of its name.
  void Enter(Submission* submission, Name* name);
  // Holds a further submission of a grouped call until the ranks agree about the first one. If they do already, enters
  // it; if the first one has failed, fails it.
  void EnterOrHold(Submission* submission, Name* name);
  // The ranks agree about `first`, or it has failed with `status`: enters the submissions held for it, or fails those.
  void EnterHeld(const Submission& first, const absl::Status& status);
  void AssignSlot(Name* name, uint32_t slot);
  Post MakePost(const Submission& submission);
  void Send(const Post& post) { posts.Send(post, offer.submission() != nullptr); }
  // States that this rank has joined, as soon as all that it has submitted before is posted.
  void PostJoin();
  void Finish(Submission* submission, const absl::Status& status);
  // `name`: the submission's; null where it is not known any more. `now_ns`: for the flight recorder.
  void Finish(Submission* submission, Name* name, const absl::Status& status, int64_t now_ns);
  // As Finish with OK, of a submission that has run in the rendezvous and that no thread waits for any more, nor will:
  // if it may be repeated, it is kept for TakeRepeated.
  void FinishMet(Submission* submission, Name* name, int64_t now_ns);
  // The submission that FinishMet kept last, if it is of `call`, and its name; null: it is not.
  Submission* TakeRepeated(const NamedAllreduce& call, Name** name);
  // Names are about to be erased.
  void ForgetMet();
  void DropOffer(const absl::Status& reason);
  // Ends the group's submissions that are posted or wait for a slot.
  void FailPending(uint32_t group, const absl::Status& reason);
  void FailDisputed(uint32_t group, const absl::Status& reason);
  // The part of Finish that is about the counts, the name and the records.
  void Account(Submission* submission, Name* name, const absl::Status& status, int64_t now_ns);
  // For Lock.
  void UnlockAndDrop();

  const int rank;
  ReadyChannel* const channel;
  const ClockNs clock;
  const ArenaTable* const arenas;
  Timeline* const timeline;
  RankMeter own_meter;
  RankMeter& meter;
  FlightRecorder flight;

  mutable std::mutex mutex;
  ChangeNotice notice;
  // Why nothing can be submitted any more.
  absl::Status ended;
  // Other ranks that have left, in that order.
  std::vector<int> left;
  NameTable names;
  OwnJoin join;
  SlotNegotiation negotiation;
  Disputes disputes;
  HandlePool pool;
  HeldParts held;
  PostQueue posts;
  Offer offer;
  OrdererNewsQueue news;
  uint32_t last_own_slot = 0;
  // Handles that wait for SubmissionTable::EnterCaptured.
  std::vector<int64_t> captured;
  // See FinishMet; null: none.
  Submission* met = nullptr;
  Name* met_name = nullptr;
  uint64_t submissions = 0;

  // Any thread reads these.
  std::atomic<int64_t> pending{0};
  std::atomic<int> captured_count{0};
  std::atomic<uint64_t> completions{0};
  std::atomic<int64_t> last_submitted_ns{0};
  // NamedAllreduce::KeyOf of the name of the last `met`; 0: there is none, or it was not what a caller asked for.
  std::atomic<uint64_t> met_key{0};
};

// An operation's bit in Name::outstanding_ops.
inline uint32_t BitOf(OpType op) { return uint32_t{1} << static_cast<uint32_t>(op); }

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_SUBMISSION_BOOK_H_
