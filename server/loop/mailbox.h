#ifndef FARANDOLE_SERVER_LOOP_MAILBOX_H_
#define FARANDOLE_SERVER_LOOP_MAILBOX_H_

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/bytes/byte_account.h"
#include "server/job/rules/event.h"
#include "server/registry/job_key.h"

namespace farandole {

// Most events of one job that may wait for their Step.
inline constexpr size_t kMailboxCapacity = 65536;

// Queue of one job loop: events for its jobs, and completions of the loop's own calls to the store. Any thread puts
// in; the loop's thread alone takes out. Owned by the loop.
class Mailbox {
 public:
  struct Letter {
    JobKey job;
    Event event;
    // Charges for the event until its Step.
    ByteCharge charge = {};
    // The caller has a role of the cluster, and pays for nothing.
    bool of_cluster = false;
  };
  struct Delivery {
    std::vector<std::function<void()>> completions;
    // In the order in which they were pushed.
    std::vector<Letter> letters;
    bool closed = false;
  };

  explicit Mailbox(size_t capacity_per_job = kMailboxCapacity) : capacity_per_job_(capacity_per_job) {}

  // Puts an event in. A StreamClosed is taken even above the capacity: there is one for each open stream at most, and a
  // job that misses it would keep a dead worker.
  //   RESOURCE_EXHAUSTED  the job has as many events waiting as may wait (both named); retry in a second
  //   UNAVAILABLE         the mailbox is closed: the coordinator stops
  absl::Status Push(JobKey job, Event event, ByteCharge charge = {}, bool of_cluster = false);
  // Puts in a call to be made on the loop's thread, also after Close. There are at most as many as the loop
  // has unfinished calls.
  void Post(std::function<void()> completion);
  // No event is taken from now on; those that wait are still delivered.
  void Close();

  // Waits until something is there, the mailbox was closed (once), or `deadline` (of SteadyNow) has come, and gives all
  // that is there.
  Delivery Take(absl::Time deadline);
  // `count` events that were delivered for `job` have had their Step and count towards its capacity no more.
  void Release(const JobKey& job, size_t count);

  // Events that wait for their Step, delivered ones included.
  size_t depth() const;

 private:
  bool HasMail() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return (closed_ && !close_told_) || !waiting_.letters.empty() || !waiting_.completions.empty();
  }

  const size_t capacity_per_job_;
  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  mutable std::mutex mutex_;
  std::condition_variable has_mail_;
  Delivery waiting_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<JobKey, size_t> count_by_job_ ABSL_GUARDED_BY(mutex_);
  size_t depth_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // A Delivery has said that the mailbox is closed; from then on only mail ends the wait.
  bool close_told_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_MAILBOX_H_
