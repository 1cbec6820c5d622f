#ifndef FARANDOLE_DEPLOY_LAUNCHER_LAUNCHED_RUN_H_
#define FARANDOLE_DEPLOY_LAUNCHER_LAUNCHED_RUN_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "deploy/launcher/launch.h"

namespace farandole::launcher {

// For tests: a whole launcher (guard, launcher process, workers) that runs `sh -c SCRIPT` as each worker, beside the
// test. The test's process adopts its orphans, so that a descendant that outlives it is found. Every worker's
// environment has INDEX, its launch index, SLOT, its place on the host, and DIR, a directory of the test's own with the
// fifos marks, gate0 and gate1.
class LaunchedRun {
 public:
  struct Scenario {
    int workers = 1;
    std::string script;
    // Instead of `script`.
    std::vector<std::string> command;
    std::string output_directory;
    StopLimits limits;
    // Set: instead of `workers`.
    std::optional<ElasticPlan> elastic;
    // Borrowed; may be null.
    JobLink* link = nullptr;
    bool verbose = false;
    // LocalWorkerHost::Command::kill_patience.
    absl::Duration kill_patience = absl::Seconds(10);
    // Not 0: the launcher is this user's.
    uid_t user = 0;
    // Worker 0's standard input.
    std::string input;
    // Replaces stdout: the run's reader.
    int stdout_fd = -1;
  };

  explicit LaunchedRun(const Scenario& scenario);
  // Kills the remaining processes.
  ~LaunchedRun();
  LaunchedRun(const LaunchedRun&) = delete;
  LaunchedRun& operator=(const LaunchedRun&) = delete;

  // The guard's pid: a user signals that.
  pid_t pid() const { return pid_; }
  const std::string& directory() const { return directory_; }
  // The launcher process: the guard's child.
  pid_t LauncherPid() const;

  // Waits until workers have written `count` bytes to the fifo DIR/marks, which they do when they have come far.
  void AwaitMarks(int count);
  // Waits for the end: its exit code, or 128 + signal. May be called once.
  int Wait();
  // Everything printed until now.
  std::string Out() const;
  std::string Err() const;
  // The run's descendants that do not end within a generous time, zombies not counted; after Wait.
  std::vector<pid_t> LeftBehind() const;

 private:
  [[noreturn]] void RunHere(const Scenario& scenario) const;

  std::string directory_;
  pid_t pid_ = -1;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_LAUNCHED_RUN_H_
