#ifndef FARANDOLE_SERVER_JOB_JOB_H_
#define FARANDOLE_SERVER_JOB_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/bytes/byte_account.h"
#include "server/diagnosis/memory_budget.h"
#include "server/job/rules/actions.h"
#include "server/job/rules/event.h"
#include "server/logged/tenant_budgets.h"
#include "server/store/store.h"

namespace farandole {

// Limits and deadlines that hold for a job; from the coordinator's options.
struct JobOptions {
  absl::Duration heartbeat_interval = absl::Milliseconds(500);
  // Silence after which a worker is lost.
  absl::Duration silence_limit = absl::Milliseconds(2500);
  // After a restart of the coordinator: how long it waits for the members of the running epoch to come back.
  absl::Duration reattach_window = absl::Seconds(30);
  // From a worker's Join until it must have opened its stream; then it no longer counts.
  absl::Duration open_limit = absl::Seconds(30);
  uint32_t max_workers = 4096;
  uint32_t max_slots = 32768;
  uint32_t max_groups = 1024;
  // The reader of the coordinator's log also sees the workers' output, in which rank 0 reports stalls; so the log
  // states a stall as information, not as a warning.
  bool logs_beside_workers = false;
  // The spans of the job's runs are among its actions.
  bool traces_runs = false;
  // For what the jobs' ranks have measured in the last minute (see Measurements): enough for some 27,000 ranks. Shared
  // by all that copy these options, the jobs of one coordinator.
  std::shared_ptr<MemoryBudget> measurements = std::make_shared<MemoryBudget>(128 << 20);
  // For what they did before (see RollUpHistory); shared likewise.
  std::shared_ptr<MemoryBudget> roll_ups = std::make_shared<MemoryBudget>(256 << 20);
  // For what their programs log, by tenant; shared likewise.
  std::shared_ptr<TenantBudgets> logged = std::make_shared<TenantBudgets>(64 << 20);
  // For timelines of whole jobs; shared likewise.
  std::shared_ptr<MemoryBudget> timelines = std::make_shared<MemoryBudget>(256 << 20);
  // The account of all that the job keeps in memory; null: nothing is charged. Shared with the job's streams and
  // events.
  std::shared_ptr<ByteAccount> bytes = nullptr;
};

// One training run: every decision that the coordinator takes about it, and nothing else. Pure: no clock, thread, disk,
// network or random source inside; the same events at the same times give the same actions. Owned by one job loop.
//
// `now` is of a clock that does not step (SteadyNow); where it goes backwards all the same, the latest time seen
// counts. `wall_ahead` is by how much the wall clock is ahead of it: only what people read, and what is kept for the
// next life of the coordinator, goes by the wall clock.
class Job {
 public:
  // `random_bytes(n)` gives n bytes for the epoch's secret; the shell passes a secure source, tests a counter.
  Job(std::string tenant, std::string name, JobOptions options, std::function<std::string(size_t)> random_bytes);
  // A job as its rows of an earlier life describe it (see store.proto), at the start
  // of its reattach window. DATA_LOSS: a row cannot be parsed (named).
  static absl::StatusOr<std::unique_ptr<Job>> Restore(std::string tenant, std::string name, JobOptions options,
                                                      std::function<std::string(size_t)> random_bytes,
                                                      absl::Span<const StoreRow> rows, absl::Time now,
                                                      absl::Duration wall_ahead = absl::ZeroDuration());
  ~Job();

  // Decides what follows from `event` at `now`. Never fails: a bad call is answered by a Reply that says what is wrong.
  Actions Step(const Event& event, absl::Time now, absl::Duration wall_ahead = absl::ZeroDuration());

  // The Steps from now on leave rows of logged values to later ones: rows of earlier Steps are not durable yet.
  void DeferLogged(bool defers);

  // There is something for TakeMeasured.
  bool HasMeasured() const;
  // Rows of what was measured: to be committed behind the steps so far, patiently. No step waits for them, and there is
  // one such commit at a time.
  StoreBatch TakeMeasured();
  // The coordinator ends: all of it is due.
  void HastenMeasured();

  // The job's row in ListJobs; as of the last Step.
  v1::JobSummary Summary() const;
  // A launch has taken the job's name, and no worker of it has joined yet.
  bool IsClaimed() const;
  // The last Step has deleted the job: its persist is the last one, and the shell purges what rows are left.
  bool IsDeleted() const;
  // No stream, no call, no running epoch, nothing for TakeMeasured: the shell may drop the object and restore it from
  // its rows when needed.
  bool IsIdle() const;
  // The bytes that an idle job takes, but for what it has charged to JobOptions::bytes.
  int64_t SpaceUsed() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_JOB_H_
