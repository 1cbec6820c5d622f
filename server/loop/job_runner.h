#ifndef FARANDOLE_SERVER_LOOP_JOB_RUNNER_H_
#define FARANDOLE_SERVER_LOOP_JOB_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/bytes/byte_account.h"
#include "server/bytes/tenant_lines.h"
#include "server/job/job.h"
#include "server/loop/output_receiver.h"
#include "server/metrics/metrics.h"
#include "server/registry/job_key.h"
#include "server/store/store.h"

namespace farandole {

// Most Steps of one job whose outputs may wait for the disk; no further Step is made before one of them is durable.
inline constexpr size_t kMaxUnfinishedSteps = 1024;

// Most bytes of rows of one job that may be on their way to the disk before no further Step is made; the last Step may
// bring so many more as a batch has.
inline constexpr size_t kMaxUnfinishedBytes = 2 << 20;

// One job in its loop, with its unfinished actions: it carries out the actions of the job's Steps in order. First it
// commits the rows that must be durable, then the outputs go out; Steps go on meanwhile, and their outputs queue
// behind. While the store cannot write, all that waits; only people who look at the job are shown it as it is then.
// Owned by the job's loop and used on that loop's thread only.
class JobRunner {
 public:
  // The dependencies of a runner; all of it outlives the runner.
  struct Dependencies {
    Store* store = nullptr;
    OutputReceiver* output_receiver = nullptr;
    Metrics* metrics = nullptr;
    // Shared by all that is charged to the job; null: nothing is.
    std::shared_ptr<ByteAccount> bytes = nullptr;
    // The loop's; null: each line is written.
    TenantLines* lines = nullptr;
  };

  // `committed(number, status)` is called on the store's thread for each commit; it has to bring both to OnCommitted.
  JobRunner(JobKey key, std::unique_ptr<Job> job, uint64_t owner_revision, Dependencies dependencies,
            std::function<void(uint64_t, absl::Status)> committed);

  // Steps the job, unless the event is of a stream that the job does not have (any more). Only while CanTake().
  void Take(const Event& event, absl::Time now);
  bool CanTake() const {
    return unfinished_.size() < kMaxUnfinishedSteps && unfinished_bytes_ < kMaxUnfinishedBytes && !job_->IsDeleted();
  }

  // The coordinator ends: commits all that was measured.
  void KeepAll();
  // The commit of step `number`, or of measurements (kMeasured), has ended. Not OK: it is the caller's to Abandon the
  // runner.
  void OnCommitted(uint64_t number);
  // Ends every stream and answers every call of the job with `status`; nothing that waited for a commit goes out. The
  // job's object is of no use afterwards; its rows are what counts.
  void Abandon(const absl::Status& status);

  v1::JobSummary Summary() const { return job_->Summary(); }
  bool IsClaimed() const { return job_->IsClaimed(); }
  // The job was deleted, durably, and all its callers know.
  bool IsGone() const { return job_->IsDeleted() && unfinished_.empty(); }
  absl::Time next_tick() const { return next_tick_; }
  bool HasUnfinishedSteps() const { return !unfinished_.empty() || is_keeping_; }
  int64_t SpaceUsed() const { return job_->SpaceUsed(); }
  // Nothing would be lost if the runner was given up now.
  bool IsIdle() const { return !HasUnfinishedSteps() && streams_.empty() && calls_.empty() && job_->IsIdle(); }

 private:
  // A Step whose outputs have not gone out yet.
  struct UnfinishedStep {
    uint64_t number = 0;
    absl::Time since;
    bool is_durable = false;
    // The bytes of the rows that it commits, and their charge, while the store has them.
    size_t bytes = 0;
    ByteCharge charge = {};
    std::vector<Output> outputs;
  };

  // In place of a step's number.
  static constexpr uint64_t kMeasured = 0;

  bool Admit(const Event& event);
  // Commits what was measured, if it is due and the last such commit has ended. No step waits for it.
  void Keep();
  // The summary's row follows that of the record.
  void KeepSummary(StoreBatch* persist);
  void Account(const std::vector<Output>& outputs);
  // Charges messages until the last worker has read them, and replies while they wait.
  void Charge(bool wait, std::vector<Output>* outputs) const;
  void CountEpochs(const v1::CoordinatorMessage& message, std::string* stall);
  // `is_look`: it changes nothing, and somebody wants to see.
  void CarryOut(Actions actions, bool is_look);
  bool WaitsLong() const;
  void DeliverDurable();
  void Deliver(Output output);

  const JobKey key_;
  const std::string owner_;
  const std::unique_ptr<Job> job_;
  const uint64_t owner_revision_;
  const Dependencies dependencies_;
  const std::function<void(uint64_t, absl::Status)> committed_;

  std::deque<UnfinishedStep> unfinished_;
  // The bytes of their rows.
  size_t unfinished_bytes_ = 0;
  uint64_t last_number_ = 0;
  // A commit of measurements is on its way.
  bool is_keeping_ = false;
  absl::Time next_tick_ = absl::InfiniteFuture();
  // Open streams and calls that the job knows.
  absl::flat_hash_set<StreamId> streams_;
  absl::flat_hash_set<CallId> calls_;
  // The summary in the store, as far as this runner knows.
  std::string kept_summary_;
  // The latest epochs that were counted: a message about an epoch goes to each of its members.
  uint64_t formed_epoch_ = 0;
  uint64_t ended_epoch_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_JOB_RUNNER_H_
