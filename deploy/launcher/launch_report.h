#ifndef FARANDOLE_DEPLOY_LAUNCHER_LAUNCH_REPORT_H_
#define FARANDOLE_DEPLOY_LAUNCHER_LAUNCH_REPORT_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "deploy/launcher/launch_plan.h"
#include "deploy/launcher/output/console.h"
#include "deploy/launcher/output/worker_outputs.h"
#include "deploy/launcher/policy/stop_policy.h"
#include "deploy/launcher/worker_hosts/worker_hosts.h"

namespace farandole::launcher {

// Tells the user how a launch's workers have ended. Owned by the launch; used on its thread.
class LaunchReport {
 public:
  struct Worker {
    pid_t pid = -1;
    // As the user and as the machine itself names it; "" until it is ready.
    std::string host;
    std::string hostname;
    // Its end was told, with its last lines.
    bool is_loss_said = false;
  };

  // All belong to the launch, and outlive the report.
  LaunchReport(const LaunchPlan& plan, const WorkerHosts& worker_hosts, const WorkerOutputs& outputs,
               StopPolicy* policy, Console* console)
      : plan_(plan), worker_hosts_(worker_hosts), outputs_(outputs), policy_(*policy), console_(*console) {}

  // By their numbers.
  std::vector<Worker>& workers() { return workers_; }
  const std::vector<Worker>& workers() const { return workers_; }
  // Workers run at several hosts, or may.
  bool NamesHosts() const;
  // "worker 1 (pid 4711, host b) ended with exit code 0 after 0.3 s".
  std::string DescribeEnd(int index) const;
  void SayEnd(int index);
  // The same for a worker that an elastic job has lost, with its last lines of stderr. `is_unread`: the console is
  // full, so that nobody has read these lines yet.
  void SayLoss(int index, bool is_unread);
  // Asks the coordinator which worker caused the failure, and tells the policy.
  void FindCause();
  // Ends the job of a launch that has failed, if it still forms: nobody else would say why nothing comes of it.
  void EndUnformed();
  // The launch has failed: which worker failed first, and how all ended.
  void SayFailure(bool is_unread);

 private:
  // The screen still shows the worker's last lines of stderr.
  bool AreLastLinesAbove(int index) const;

  const LaunchPlan& plan_;
  const WorkerHosts& worker_hosts_;
  const WorkerOutputs& outputs_;
  StopPolicy& policy_;
  Console& console_;
  std::vector<Worker> workers_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_LAUNCH_REPORT_H_
