#ifndef FARANDOLE_DEPLOY_LAUNCHER_LAUNCH_PLAN_H_
#define FARANDOLE_DEPLOY_LAUNCHER_LAUNCH_PLAN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "deploy/launcher/output/console.h"
#include "deploy/launcher/policy/host_list.h"
#include "deploy/launcher/policy/stop_policy.h"
#include "deploy/launcher/process/guard.h"
#include "deploy/launcher/recruitment.h"
#include "deploy/launcher/worker_hosts/local_worker_host.h"
#include "deploy/launcher/worker_hosts/ssh_worker_host.h"

namespace farandole::launcher {

// A launch: its command, workers and limits.
struct LaunchPlan {
  // The launcher's name in its own sentences.
  std::string program = "farandole";
  // The command of workers here. `executable` may be empty where no worker does.
  LocalWorkerHost::Command command;
  // So many workers, in an elastic launch at the start.
  int workers = 1;
  // A fixed launch: which of them run where, in order; empty: all here.
  std::vector<HostShare> shares;
  // Set: an elastic one.
  std::optional<ElasticPlan> elastic;
  // How the other hosts are reached, what their agents run, and for how long they are waited for.
  SshOptions ssh;
  AgentOrder order;
  absl::Duration reach_limit = absl::Seconds(60);
  // Not empty: DIR/rank.N/stdout and .../stderr get the output of worker N, byte by byte.
  std::string output_directory;
  // Says on stderr which workers start and end.
  bool verbose = false;
  // Each line of the workers' output begins with the time.
  bool prefix_time = false;
  Progress progress = Progress::kFirst;
  // Console::Plan::is_dumb.
  bool is_terminal_dumb = false;
  StopLimits limits;
  GuardLink guard;
  // The job's coordinator; borrowed, and outlives the launch. May be null: then the launch does not notice that workers
  // wait for one that has ended with code 0, and takes the first worker that fails for the cause.
  JobLink* link = nullptr;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_LAUNCH_PLAN_H_
