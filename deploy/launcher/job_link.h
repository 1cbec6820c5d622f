#ifndef FARANDOLE_DEPLOY_LAUNCHER_JOB_LINK_H_
#define FARANDOLE_DEPLOY_LAUNCHER_JOB_LINK_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/launcher/policy/stop_policy.h"

namespace farandole::launcher {

// A launch's calls to its job's coordinator. Each call waits for its answer, a few seconds at most; any thread may make
// them.
class JobLink {
 public:
  struct ExitAnswer {
    // No worker may be started for the job any more: it has failed, or its program is finishing.
    bool is_job_over = false;
    // nullopt: the job goes on, or its state could not be had. Then the report may be made again.
    std::optional<bool> has_job_failed;
    // The job's last epoch was without the worker, whose end did not matter to it.
    bool is_outlived = false;
    // Why, for people; "" if the job goes on.
    std::string reason;
    // The host is barred for so long, and why; zero: it is not.
    absl::Duration barred;
    std::string barred_because;
  };

  struct LostWorker {
    int worker = 0;
    absl::Duration lost_for;
    // Why.
    std::string sentence;
  };

  // The launch's workers, where some of them have ended with code 0.
  struct Presence {
    // Those that run, by number and by pid.
    std::set<int> running;
    std::set<int64_t> pids;
    // How the others ended, for people: "worker 1 (pid 4711) ended with exit code 0 after 0.3 s".
    std::map<int, std::string> ended_well;
    // So many more workers are due on hosts that can be used.
    int starting = 0;
    // More workers are due, now or later.
    bool may_grow = false;
  };

  // Workers wait for one that has ended with code 0.
  struct Vacancy {
    // Which one, and the ranks that the job waits for; "": there is no vacancy.
    std::string sentence;
    // More workers may come, from this launch or another, and the job goes on. False: it was ended.
    bool may_be_filled = false;
  };

  virtual ~JobLink() = default;

  // A process has ended: `worker` is its number in the launch, `hostname` the machine's own name.
  //   NOT_FOUND    the coordinator knows no such job, as nobody has joined it
  //   UNAVAILABLE  it cannot be reached
  virtual absl::StatusOr<ExitAnswer> ReportExit(int worker, const WorkerEnd& end, const std::string& hostname) = 0;
  // Has these workers of the launch leave in order.
  //   as AdminService.DrainWorkers
  virtual absl::Status Drain(const std::vector<int>& workers, const std::string& reason) = 0;
  // Workers that the job has lost, and whose processes may still be there.
  //   as ReportExit
  virtual absl::StatusOr<std::vector<LostWorker>> FindLost() = 0;
  // This launch starts no more workers: ends the job with this reason if it has fewer workers than it needs, counting
  // those of other launches. Returns whether the job was ended.
  //   as AdminService.AbortJob
  virtual absl::StatusOr<bool> EndIfShort(const std::string& reason) = 0;
  // Workers have ended with code 0: looks whether others wait for them, in the launch's job or in one that some of the
  // workers form by init(ranks), and ends a job in which they do if no other worker can come.
  //   UNAVAILABLE  as ReportExit
  virtual absl::StatusOr<Vacancy> EndIfVacant(const Presence& presence) = 0;
  // The launch, of a job of fixed size, is over, and has failed: ends the job with this reason if it still forms, and
  // waits for nobody but the launch's workers, whose pids these are.
  virtual void EndUnformed(const std::string& reason, const std::set<int64_t>& pids) = 0;
  // The processes whose end or silence ended the job's epoch; empty if the coordinator does not know. If others failed
  // because some processes had left before (as sys.exit(3) does), those come first.
  virtual std::vector<pid_t> FindCause() = 0;
  // The workers have ended, some by a failure: `flights` are what their recorders have kept (WorkerEnd::flight). Says
  // which collective was missing on whom; "" where nobody waited, or the coordinator does not say.
  virtual std::string ReportFlights(const std::vector<std::string>& flights) = 0;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_JOB_LINK_H_
