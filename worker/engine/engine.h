#ifndef FARANDOLE_WORKER_ENGINE_ENGINE_H_
#define FARANDOLE_WORKER_ENGINE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/core/collective.h"
#include "worker/engine/batch_runner.h"
#include "worker/engine/cork.h"
#include "worker/engine/cpu_move.h"
#include "worker/engine/engine_options.h"
#include "worker/engine/glance.h"
#include "worker/engine/submissions/submission_table.h"
#include "worker/measure/last_arrivals.h"
#include "worker/measure/rank_meter.h"
#include "worker/measure/wait_sampler.h"
#include "worker/order/orderer.h"
#include "worker/order/ready_channel.h"

namespace farandole {

// Runs one rank's collectives in one epoch. A thread that waits for a result takes the engine's role (one thread at a
// time has it) and does the work: orders (rank 0), reads the log, advances the collective, completes handles. The
// engine's own data thread drives submissions that no thread waits for. Public calls are thread-safe.
class Engine {
 public:
  // `channel` and `link` outlive it; `link` is null for a rank alone. `stop_transport` ends what the transport does,
  // from any thread.
  Engine(EngineOptions options, ReadyChannel* channel, CollectiveStarter start,
         std::function<void(const absl::Status&)> stop_transport, ControlLink* link);
  // Ends the pending submissions.
  ~Engine();

  // As SubmissionTable::Submit.
  absl::StatusOr<int64_t> Submit(const Request& request);
  // Submits and waits at once; saves waking the data thread. `*handle` is 0 if nothing was accepted.
  absl::StatusOr<bool> SubmitAndWait(const Request& request, int64_t limit_ns, bool release, int64_t* handle);
  // Submits for a caller that does not wait, and looks for the other ranks first where that pays (Glance).
  absl::StatusOr<int64_t> SubmitAndGlance(const Request& request);
  // As SubmitAndWait with `release`, of an allreduce that repeats the one which has met the other ranks' in the
  // rendezvous last. False: this one goes the general way, and nothing was submitted.
  bool RepeatAndWait(const NamedAllreduce& call, int64_t limit_ns, int64_t* handle, absl::StatusOr<bool>* complete);
  // Waits at most `limit_ns` (negative: without limit) and gives whether the submission is complete, or its error.
  // `release` forgets a complete one. INVALID_ARGUMENT: no such handle.
  absl::StatusOr<bool> Wait(int64_t handle, int64_t limit_ns, bool release);
  // Waits, as long as Wait, until the number of completed submissions is not `seen`, and returns it.
  uint64_t WaitForCompletion(uint64_t seen, int64_t limit_ns);
  void Release(int64_t handle) { table_.Release(handle); }
  bool IsKnown(int64_t handle);
  // A submission that is complete without an error; null if the handle is not that of one.
  Submission* Completed(int64_t handle);
  // As Completed, of an op that allocates its result.
  Submission* Result(int64_t handle);

  // The program is about to submit more tensors: rank 0 holds ready ones back, to fuse them, until a thread waits
  // (Cork). Any thread.
  void AnnounceMore();
  // Takes the role, if it is free, and does what can be done now, without waiting.
  void Attend();

  SubmissionTable& table() { return table_; }
  // Control thread: the table was given slots, groups or errors. Has them acted upon, and waiters look again.
  void OnTableChanged();
  int rank() const { return options_.rank; }

  // Ends the epoch on this rank: all submissions end with `reason`. From any thread; idempotent, the first reason
  // stays.
  void Abort(const absl::Status& reason);
  // States that this rank leaves, and waits until the log says so and no other rank needs this one. OK also when the
  // epoch has ended meanwhile.
  //   ABORTED: `interrupted` (may be null) gave true; called about every 100 ms.
  absl::Status Leave(const std::function<bool()>& interrupted);

  struct Counters {
    uint64_t batches = 0;
    uint64_t bytes = 0;
    uint64_t arena_bytes = 0;  // of these, reduced in place in arenas
    uint64_t engine_ns = 0;
    uint64_t wait_ns = 0;
  };
  Counters counters() const;
  // Any thread: as RankMeter::WaitedNs.
  int64_t WaitedNs(int64_t now_ns) const { return meter_.WaitedNs(now_ns); }
  // Rank 0: who comes last; null on others. Any thread.
  const LastArrivals* arrivals() const { return arrivals_.get(); }

 private:
  void DataThread();
  // After a submission, or a change of the table: rank 0 orders ready slots, a relaying rank relays posts, other ranks
  // post what did not fit before. All ranks decline a rendezvous round that they cannot join. If another thread has the
  // role, rings the bell instead.
  void Kick();
  // Has the engine worked, by this thread or another, until `done` or the limit.
  template <typename Done>
  void Await(const Done& done, int64_t limit_ns);
  // Has the role: works until `done` or the deadline, yields and sleeps meanwhile.
  template <typename Done>
  void Drive(const Done& done, int64_t deadline_ns);
  // Has the role: works until the submission is complete or the limit, and gives the role back.
  absl::StatusOr<bool> DriveAndLeave(Submission* submission, int64_t limit_ns, bool release, int64_t* handle);
  // Has the role: does what can be done now; false: nothing.
  bool Pass();
  bool MeetPass();
  bool DeclineOffers();
  bool OrderPass();
  bool RelayPass();
  void ApplyNews();
  bool ReadLog();
  void OnInline(const Entry& entry);
  // With the role: a collective of so many bytes is over that needed no batch.
  void CountSmall(int64_t bytes);
  void OnLeft(int rank);
  void FailAll();
  // Whether there may be more for this rank in the log: not after it has left, unless it is needed.
  bool ReadsOn() const { return !has_left_.load() || channel_->IsNeeded(); }
  // Gives the role back, and wakes a thread for the remaining work.
  void LeaveRole();
  bool HasWork() const;
  // Whether the rendezvous needs this rank: its own offer was decided, or it must answer another rank's offer.
  bool MustMeet() const;
  Attention IdleAttention() const;
  // A thread waits: what is ready goes.
  void EndCork();
  // The longest sleep of the data thread; a ring ends it.
  absl::Duration LongestIdleSleep() const;

  const EngineOptions options_;
  ReadyChannel* const channel_;
  Rendezvous* const rendezvous_;
  const std::function<void(const absl::Status&)> stop_transport_;
  RankMeter meter_;
  SubmissionTable table_;
  Doorbell& bell_;
  const bool relays_;

  std::mutex role_;
  // The members below belong to the role.
  Orderer orderer_;
  std::optional<Entry> unappended_;
  uint32_t met_ = 0;  // rounds of the rendezvous
  // The submission that SubmitAndWait or RepeatAndWait drives and is to release. Null: none, or it has met the other
  // ranks' and is released.
  Submission* driven_ = nullptr;
  WaitSampler sampler_;
  // Rank 0: counts which rank posts last. `looked_ns_`: the time of the last check for posts; up to date after a wait.
  const std::unique_ptr<LastArrivals> arrivals_;
  int64_t looked_ns_ = 0;
  uint64_t appended_batches_ = 0;  // rank 0: to the log, with this rank
  Entry entry_;
  CpuMove cpu_move_;
  BatchRunner batch_;
  Cork cork_;

  Glance glance_;
  std::atomic<bool> attends_always_{false};
  std::atomic<bool> is_ending_{false};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> failed_all_{false};
  std::atomic<bool> leave_posted_{false};
  std::atomic<bool> has_left_{false};
  std::atomic<bool> stopping_{false};
  // Collectives that needed no batch, and their bytes.
  std::atomic<uint64_t> small_{0};
  std::atomic<uint64_t> small_bytes_{0};
  std::thread data_thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_ENGINE_H_
