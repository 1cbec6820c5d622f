#ifndef FARANDOLE_SERVER_LOOP_JOB_LOOP_H_
#define FARANDOLE_SERVER_LOOP_JOB_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/bytes/byte_ledger.h"
#include "server/bytes/tenant_lines.h"
#include "server/job/job.h"
#include "server/job/rules/event.h"
#include "server/loop/job_rows.h"
#include "server/loop/job_runner.h"
#include "server/loop/mailbox.h"
#include "server/loop/output_receiver.h"
#include "server/loop/read_queue.h"
#include "server/loop/turns.h"
#include "server/metrics/metrics.h"
#include "server/queue/quota_gate.h"
#include "server/registry/job_key.h"
#include "server/registry/job_registry.h"
#include "server/registry/tenants.h"
#include "server/store/store.h"

namespace farandole {

// The dependencies of a loop; all of it outlives the loop.
struct JobLoopDependencies {
  Store* store = nullptr;
  OutputReceiver* output_receiver = nullptr;
  Metrics* metrics = nullptr;
  JobRegistry* directory = nullptr;
  const Tenants* tenants = nullptr;
  QuotaGate* gate = nullptr;
  // Null: nothing is charged.
  ByteLedger* bytes = nullptr;
};

struct JobLoopOptions {
  // For each job; its max_workers is lowered to the tenant's quota.
  JobOptions job;
  // How long an idle job stays in memory: what people ask about an ended job is partly not durable. One of which
  // nothing has come, such as a launch that was given up, goes at once; others go earlier where their tenant has no
  // room for them, or has more than kMostIdle, those first that were asked for least lately.
  absl::Duration idle_linger = absl::Minutes(5);
  size_t mailbox_capacity = kMailboxCapacity;
  // A secure source of random bytes.
  std::function<std::string(size_t)> random_bytes;
};

// Most idle jobs of a tenant that a loop keeps.
inline constexpr size_t kMostIdle = 256;

// One thread that owns some of the coordinator's jobs: it takes events out of the mailbox, steps their jobs, and
// carries out the actions (JobRunner). Tenants take turns, so that one with many events does not make others wait. A
// job is read from the store when an event for it comes, and dropped when it is idle. Owned by JobLoops.
class JobLoop {
 public:
  JobLoop(JobLoopOptions options, JobLoopDependencies dependencies);
  // Stops it.
  ~JobLoop();

  // Any thread. Gives an event to its job. `of_cluster`: its caller has a role of the cluster, and pays for nothing.
  // Errors: those of Mailbox::Push.
  absl::Status Push(const JobKey& key, Event event, ByteCharge charge = {}, bool of_cluster = false);
  // Any thread. Reads a job from the store before any event comes, so that its deadlines run; `done` is called on the
  // loop's thread. Errors: the store's, and DATA_LOSS if a row cannot be parsed.
  void Restore(const JobKey& key, std::function<void(absl::Status)> done);
  // Any thread. Deletes what is left of a job that was deleted, and forgets it for good after kGoneKept. Does nothing
  // if a job of this name is there again.
  void Purge(const JobKey& key);
  // Events are refused from now on; returns when those taken before are decided, durable and answered. Streams stay
  // open: their jobs go on when a coordinator starts on the same store.
  void Stop();

  size_t mailbox_depth() const { return mailbox_.depth(); }

 private:
  struct WaitingEvent {
    Event event;
    ByteCharge charge;
    bool of_cluster = false;

    // Whether it is a tick of the loop's own, which the mailbox does not count.
    bool IsTick() const { return std::holds_alternative<Ticked>(event); }
  };
  // A job in this loop. While it is being read from the store it has no runner and its events wait.
  struct OwnedJob {
    // Tells a completion for an earlier life of the job in this loop from one for this.
    uint64_t life = 0;
    std::unique_ptr<JobRunner> runner;
    std::deque<WaitingEvent> waiting;
    std::function<void(absl::Status)> restored;
    // There is no such job, and its rows in the store are to be deleted.
    bool is_purge = false;
    // A tick is among `waiting`.
    bool tick_waits = false;
    absl::Time last_event = absl::InfinitePast();
    absl::Time timer = absl::InfiniteFuture();
    // Its place in idle_; InfiniteFuture: it is not idle.
    absl::Time idle_since = absl::InfiniteFuture();
    // Quotas bound the workers of jobs that run, and this those of idle ones.
    ByteCharge idle_charge = {};
    // It has its place in reads_, and is not being read.
    bool awaits_read = false;
  };
  using OwnedJobs = absl::flat_hash_map<JobKey, std::unique_ptr<OwnedJob>>;

  void Run();
  void AcceptAll(std::vector<Mailbox::Letter> letters);
  // Null: the event was refused.
  OwnedJob* JobFor(const Mailbox::Letter& letter);
  // `is_paid`: its tenant pays for its rows, and has few such readings at a time.
  OwnedJob* Open(const JobKey& key, bool is_paid = false);
  // Whether the tenant pays when this job is read: it has ended.
  bool IsPaidFor(const JobKey& key) const;
  // RESOURCE_EXHAUSTED: the tenant owes more than this for what was read of its other jobs.
  absl::Status AdmitRead(const JobKey& key, absl::Duration may_owe) const;
  // Reads the job's rows; it has no runner until they are there.
  void Read(const JobKey& key, OwnedJob* owned, bool is_paid = false);
  // A reading that was paid for has ended; another one may begin.
  void EndRead(const std::string& tenant);
  // The most that its tenant may owe for one of those that wait for it to be served; zero: only looks do.
  static absl::Duration MayOweFor(const OwnedJob& owned);
  // It goes, and all that wait for it are told so.
  void RefuseAll(const JobKey& key, const absl::Status& status);
  // Its rows go; events that wait for it come next, and find no such job.
  void StartPurge(const JobKey& key, uint64_t life, const AcquiredRows& rows);
  void OnPurged(const JobKey& key, uint64_t life, const absl::Status& status);
  void OnRows(const JobKey& key, uint64_t life, absl::StatusOr<AcquiredRows> rows);
  std::shared_ptr<ByteAccount> AccountOf(const JobKey& key) const;
  absl::StatusOr<std::unique_ptr<Job>> MakeJob(const JobKey& key, const AcquiredRows& rows, absl::Time now) const;
  void OnCommitted(const JobKey& key, uint64_t life, uint64_t number, const absl::Status& status);
  // Lets each tenant that waits have one turn.
  void TakeTurns();
  // A turn of the job: its events, for a short time.
  void Advance(const JobKey& key, OwnedJob* owned);
  // After Steps, or a commit: what others see of the job, and its timer. True: the job is gone, and read anew.
  bool Settle(const JobKey& key, OwnedJob* owned);
  void Feed(const JobKey& key, OwnedJob* owned, const Event& event);
  // For a part (JoinRequested::part_of): checks that its workers do not belong to an earlier run than the last run,
  // with workers, of the job that they were launched for.
  absl::Status CheckParent(const JobKey& key, const JoinRequested& event) const;
  // Whether the tenant's quota has room for what the event asks for.
  absl::Status AdmitByQuota(const JobKey& key, const Event& event);
  void Drop(const JobKey& key, const absl::Status& status);
  // Charges an idle job that was read, and drops others for it. RESOURCE_EXHAUSTED: there is no room for a job that is
  // only looked at.
  absl::Status AdmitIdle(const JobKey& key, OwnedJob* owned);
  void SetIdle(const JobKey& key, OwnedJob* owned, bool is_idle);
  // Idle jobs are for those who look, who may fill half of what their tenant may keep.
  bool HasRoomForIdle(const JobKey& key) const;
  // Drops the job of the tenant that has been idle for longest, and not `but`. False: there is none.
  bool DropLongestIdle(const std::string& tenant, const JobKey& but);
  void Erase(const JobKey& key);
  void SetTimer(const JobKey& key, OwnedJob* owned);
  void FireTimers(absl::Time now);
  void Refuse(const Event& event, const absl::Status& status);
  OwnedJob* Find(const JobKey& key, uint64_t life);
  bool IsQuiet() const;
  // The loop ends.
  void KeepMeasurements();

  const JobLoopOptions options_;
  const JobLoopDependencies dependencies_;
  Mailbox mailbox_;

  // The thread's own.
  OwnedJobs jobs_;
  uint64_t last_life_ = 0;
  std::set<std::pair<absl::Time, JobKey>> timers_;
  // Jobs that may be dropped, by tenant, and since when each is idle.
  std::map<std::string, std::set<std::pair<absl::Time, JobKey>>> idle_;
  Turns turns_;
  ReadQueue reads_;
  TenantLines lines_;

  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_JOB_LOOP_H_
