#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_SUBMISSION_TABLE_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_SUBMISSION_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "farandole/v1/flight.pb.h"
#include "farandole/v1/worker.pb.h"
#include "worker/core/clock.h"
#include "worker/engine/submissions/book/submission_book.h"
#include "worker/engine/submissions/coordinator_answers.h"
#include "worker/engine/submissions/log_outcomes.h"

namespace farandole {

// All submissions of one rank in one epoch: takes them from the program's threads, and tells these how they end.
// Thread-safe: one lock, held briefly and never while waiting.
class SubmissionTable {
 public:
  explicit SubmissionTable(const SubmissionOptions& options) : book_(options), answers_(&book_), log_(&book_) {}

  // Checks and accepts a request, and posts or negotiates it. The handle stays valid until Release.
  //   INVALID_ARGUMENT: the request is not valid, or one of this name and operation is pending; ABORTED and others:
  //   the epoch has ended.
  absl::StatusOr<int64_t> Submit(const Request& request);
  // As Submit and BeginWaiting, for the thread that has the engine's role and drives it until the submission is
  // complete or another rank must act.
  absl::StatusOr<Submission*> SubmitAndBeginWaiting(const Request& request);
  // The same of an allreduce that repeats the one which has met the other ranks' in the rendezvous last. Null: it does
  // not, or not everything before it is over, and nothing was submitted.
  Submission* RepeatAndBeginWaiting(const NamedAllreduce& call);
  // Any thread, without the lock: whether it may repeat that one.
  bool MayRepeat(const NamedAllreduce& call) const {
    return book_.met_key.load(std::memory_order_relaxed) == NamedAllreduce::KeyOf(call.name) &&
           book_.pending.load(std::memory_order_relaxed) == 0;
  }
  // Posts the submissions that are captured in a CUDA graph. They stay here until the capturing thread waits, because
  // CUDA allows one thread at a time to work on a graph, and another thread captures the collectives. Submissions whose
  // capture has ended fail. Returns whether there were any.
  bool EnterCaptured();
  // The number of captured submissions that are not complete.
  int captured() const { return book_.captured_count.load(); }
  // Finds a submission for a waiting thread, which must call DoneWaiting with it. Null: no such handle.
  Submission* BeginWaiting(int64_t handle);
  // Gives whether the submission is complete, or its error, and releases it if it is complete and `release` is set.
  absl::StatusOr<bool> DoneWaiting(Submission* submission, bool release);
  // Forgets a handle; a pending submission goes on by itself.
  void Release(int64_t handle);
  // Notified when anything has completed, or a group, a name or the epoch has ended.
  ChangeNotice& notice() { return book_.notice; }

  // Control thread: what the coordinator answers.
  CoordinatorAnswers& answers() { return answers_; }
  // Engine role: what the ranks agree about.
  LogOutcomes& log() { return log_; }
  // Ends all submissions that do not run, and all that will come, with `reason`. The first reason stays.
  void End(const absl::Status& reason);

  // Any thread: states that this rank leaves.
  void PostLeave();

  // Any thread: posts what did not fit into the channel; true if any went.
  bool FlushPosts();
  // Engine role.
  bool HasUnposted() const { return book_.posts.size() > 0; }
  std::vector<OrdererNews> TakeNews();
  bool HasOrdererNews() const { return !book_.news.IsEmpty(); }
  // Whether a submission waits in the rendezvous; if so, later ones are not posted yet.
  bool has_offer() const { return book_.offer.is_open(); }

  // Whether this rank has joined, and not all have.
  bool HasJoined() const;
  // How often all ranks have joined.
  uint32_t joins() const;
  // The first handle for the process's next table, so that it gives none that this table has given.
  int64_t next_handles() const;

  // Any thread.
  int64_t pending() const { return book_.pending.load(); }
  // Submissions that have completed, well or not. A thread that has seen the count finds each of them complete.
  uint64_t completions() const { return book_.completions.load(); }
  // When this rank submitted last; 0: never.
  int64_t last_submitted_ns() const { return book_.last_submitted_ns.load(std::memory_order_relaxed); }
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
  // As the function of this name; `with_times`: and as AddNameTimes.
  v1::FlightRecords ReadFlight(size_t most, int64_t now_ns, bool with_times = false) const;
  // Age of the oldest pending submission; 0: none.
  int64_t OldestPendingAge(int64_t now_ns) const;

  struct Counters {
    uint64_t submissions = 0;
    uint64_t completions = 0;
    uint64_t negotiation_messages = 0;
  };
  Counters counters() const;

 private:
  using Name = NameTable::Name;
  using Group = NameTable::Group;

  // Captured requests go to EnterCaptured.
  absl::StatusOr<Submission*> SubmitLocked(const Request& request, bool is_driven);
  // The group of a request, in which this rank may submit now. `name`: of sentences, also below.
  absl::StatusOr<Group*> FindGroup(const Request& request, absl::string_view name);
  absl::Status Check(const Request& request, absl::string_view name, const Group& group) const;
  // Whether there is room for one more submission, and its call's first one is known.
  absl::Status CheckRoom(const Request& request, absl::string_view name) const;
  // Describes a checked request. `is_covered`: by the name's memo.
  Submission* Accept(const Request& request, const Group& group, Name* name, bool is_covered);
  // Counts and records a described submission, and sends it on its way.
  void Take(Submission* submission, Name* name, bool is_driven);

  SubmissionBook book_;
  CoordinatorAnswers answers_;
  LogOutcomes log_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_SUBMISSION_TABLE_H_
