#ifndef FARANDOLE_SERVER_QUEUE_LAUNCH_QUEUE_H_
#define FARANDOLE_SERVER_QUEUE_LAUNCH_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/worker.pb.h"
#include "server/bytes/tenant_lines.h"
#include "server/job/rules/actions.h"
#include "server/job/rules/event.h"
#include "server/metrics/metrics.h"
#include "server/queue/alarm.h"
#include "server/queue/ended_launches.h"
#include "server/queue/queue_rows.h"
#include "server/queue/quota_gate.h"
#include "server/registry/job_key.h"
#include "server/registry/job_registry.h"
#include "server/registry/tenants.h"
#include "server/store/store.h"

namespace farandole {

// Most launches that wait, of a tenant and in all.
inline constexpr size_t kMaxQueuedOfTenant = 1000;
inline constexpr size_t kMaxQueued = 10000;
// A launch that is not heard of for so long loses its place.
inline constexpr absl::Duration kQueueSilence = absl::Seconds(30);
// For so long after its start a coordinator starts none of the launches that waited before: those that had their jobs
// renew their claims first (each 10 s, run_claim.cc), which are in memory only.
inline constexpr absl::Duration kSettling = absl::Seconds(12);

// Takes launches for jobs: those that have room in their tenant's quota go on to their job, the others wait, as
// QuotaGate decides. A launch that waits is on disk before its launcher hears that it does, and goes from there when
// its job has it. Owned by the coordinator; any thread may call it.
class LaunchQueue {
 public:
  using Finish = std::function<void(const absl::Status&, ReplyMessage)>;
  // Gives a launch to its job; `finish` is called once with the job's answer. Called with no lock held.
  using Claim = std::function<void(const JobKey&, const v1::CreateJobRequest&, Finish)>;
  struct Dependencies {
    Store* store = nullptr;
    const Tenants* tenants = nullptr;
    JobRegistry* registry = nullptr;
    QuotaGate* gate = nullptr;
    Metrics* metrics = nullptr;
    Claim claim;
  };
  struct Options {
    absl::Duration silence = kQueueSilence;
    absl::Duration settling = kSettling;
  };

  // All that is given outlives it.
  LaunchQueue(Dependencies dependencies, Options options);
  // Stops it.
  ~LaunchQueue();

  // Reads the launches that waited in an earlier life, and begins to start them. Blocks; to be called once. Errors: the
  // store's, DATA_LOSS if a row cannot be parsed.
  absl::Status Load();
  // CreateJob of worker.proto; `request` says which token asks. `finish` is called once, on any thread.
  void Launch(const JobKey& key, v1::CreateJobRequest request, Finish finish);
  // Answers an event for a job of which a launch waits, and ends that launch where the event says so. nullopt: the
  // event is the job's.
  std::optional<Reply> Answer(const JobKey& key, const Event& event);
  // An answer of the job shows the launch that waits, if one does.
  void Overlay(const JobKey& key, ReplyMessage* message) const;
  // A quota was changed.
  void Look();
  // From now on none starts, and none loses its place.
  void Pause();
  // Answers all that wait UNAVAILABLE; their places stay on disk.
  void Stop();

 private:
  // A call that is held.
  struct Waiter {
    Finish finish;
    uint64_t seen = 0;
    absl::Time deadline;
    std::string nonce;
  };
  struct Entry {
    v1::QueuedRecord record;
    v1::QueuePlace place;
    absl::Time heard_at;
    // It has room, and its job has been asked.
    bool is_starting = false;
    std::vector<Waiter> waiters;
  };
  // To be called when the lock is not held any more.
  using Calls = std::vector<std::function<void()>>;

  void Run();
  absl::Time NextDeadline() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The steps of a round.
  void DropSilent(Calls* calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartAll(Calls* calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellPlaces() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AnswerDue(Calls* calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AnswerEntry(const JobKey& key, Entry* entry, absl::Time now, Calls* calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A launch of a job of which none waits.
  void LaunchNew(const JobKey& key, const v1::CreateJobRequest& request, Waiter waiter, Calls* calls)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckMayWait(const JobKey& key, const v1::CreateJobRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enqueue(const JobKey& key, const v1::CreateJobRequest& request, Waiter waiter, const std::string& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A call for a job of which a launch waits.
  void CallAgain(const JobKey& key, Entry* entry, const v1::CreateJobRequest& request, Waiter waiter, Calls* calls)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the launch to its job. `took_room`: this call has got the room, which goes back if the job refuses.
  std::function<void()> Forward(const JobKey& key, const v1::CreateJobRequest& request, Finish finish, bool took_room);
  void OnClaimed(const JobKey& key, const absl::Status& status, const ReplyMessage& message);
  // The launch waits no more: all that ask for it get this answer, an error also later.
  void Drop(const JobKey& key, const absl::Status& status, const ReplyMessage& message, Calls* calls)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Cancel(const JobKey& key, const Entry& entry, const AbortRequested& event, Calls* calls)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Log(const JobKey& key, const std::string& sentence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static ReplyMessage PlaceReply(const Entry& entry);
  static void Make(Calls calls);

  const Dependencies dependencies_;
  const Options options_;
  QueueRows rows_;

  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  mutable std::mutex mutex_;
  bool is_paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<JobKey, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  EndedLaunches ended_ ABSL_GUARDED_BY(mutex_){kMaxQueuedOfTenant, kMaxQueued};
  TenantLines lines_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_serial_ ABSL_GUARDED_BY(mutex_) = 0;
  // The end of kSettling; InfinitePast: it is over.
  absl::Time settles_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // By tenant: none is started before, since the job of one had no room for its claim. "": of all tenants.
  std::map<std::string, absl::Time> starts_from_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_round_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // Places may be others than those that were told last.
  bool is_changed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time told_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();

  Alarm alarm_;
  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_QUEUE_LAUNCH_QUEUE_H_
