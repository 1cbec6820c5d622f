#ifndef FARANDOLE_SERVER_EDGE_SWEEPER_H_
#define FARANDOLE_SERVER_EDGE_SWEEPER_H_

#include <cstdint>
#include <future>
#include <map>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "base/steady_notification.h"
#include "server/admin/answer_ledger.h"
#include "server/edge/call_router.h"
#include "server/registry/job_registry.h"
#include "server/registry/retention.h"
#include "server/store/store.h"

namespace farandole {

// Has jobs deleted that have been kept long enough, and forgets deleted ones, and answers to repeated calls, in time.
// Measures what each tenant has in the store. If what ranks have measured is more than a quarter of a tenant's quota
// there, jobs that have ended lose theirs, the oldest first. Gives memory that messages have left free back to the
// system. Tells of libraries' lines that the log left out. Each job decides itself whether it may go: it may have begun
// anew. It works in small steps with rests between them, so that running jobs do not wait for it. Owned by the
// coordinator.
class Sweeper {
 public:
  struct Rows {
    Store* store;
    AnswerLedger* answers;
    Tenants* tenants;
  };
  // All that is given outlives it. `interval`: how often it looks whether there is anything to do.
  Sweeper(CallRouter* router, const JobRegistry* registry, Rows rows, Retention retention, absl::Duration interval);
  // Waits for the step that it is at.
  ~Sweeper();

 private:
  // Measurements of a tenant that were dropped. The store counts them until it has merged its files.
  struct Dropped {
    uint64_t bytes = 0;
    absl::Time at = absl::InfinitePast();
    // All measurements of the tenant, as the store counted them last.
    uint64_t measured = 0;
    // The last job that was looked at: later ones have ended later.
    EndedJob last;
  };

  void Run();
  // true: there may be more.
  bool DeleteOverdue();
  // Looks at the next rows under gone/.
  void ForgetDeleted();
  // How much each tenant's rows take.
  void MeasureTenants();
  void FitMeasured(const std::string& tenant);
  // The exact bytes of one job.
  uint64_t MeasuredBytesOf(const JobKey& key);
  // Whether the job has done it.
  std::future<bool> Delete(const EndedJob& job, bool only_measured);

  CallRouter* const router_;
  const JobRegistry* const registry_;
  const Rows rows_;
  const Retention retention_;
  const absl::Duration interval_;
  // The last row under gone/ that was looked at; "": begin anew.
  std::string last_gone_;
  std::map<std::string, Dropped> dropped_;
  SteadyNotification stop_;
  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_SWEEPER_H_
