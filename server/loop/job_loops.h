#ifndef FARANDOLE_SERVER_LOOP_JOB_LOOPS_H_
#define FARANDOLE_SERVER_LOOP_JOB_LOOPS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/job/rules/event.h"
#include "server/loop/job_loop.h"
#include "server/registry/job_key.h"

namespace farandole {

// All job loops of the coordinator; each job is pinned to one of them by its name. Owned by the coordinator; any
// thread.
class JobLoops {
 public:
  // `count` >= 1.
  JobLoops(size_t count, const JobLoopOptions& options, const JobLoopDependencies& dependencies);

  // As JobLoop::Push.
  absl::Status Push(const JobKey& key, Event event, ByteCharge charge = {}, bool of_cluster = false) {
    return LoopOf(key).Push(key, std::move(event), std::move(charge), of_cluster);
  }

  // Reads these jobs from the store; returns when all are there. One that cannot be read is logged and left out.
  void Restore(absl::Span<const JobKey> keys);

  // As JobLoop::Purge.
  void Purge(const JobKey& key) { LoopOf(key).Purge(key); }

  // As JobLoop::Stop, for all.
  void Stop();

  size_t mailbox_depth() const;

 private:
  JobLoop& LoopOf(const JobKey& key);

  std::vector<std::unique_ptr<JobLoop>> loops_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_JOB_LOOPS_H_
