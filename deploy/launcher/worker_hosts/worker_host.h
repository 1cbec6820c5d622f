#ifndef FARANDOLE_DEPLOY_LAUNCHER_WORKER_HOSTS_WORKER_HOST_H_
#define FARANDOLE_DEPLOY_LAUNCHER_WORKER_HOSTS_WORKER_HOST_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "deploy/launcher/output/console.h"
#include "deploy/launcher/policy/stop_policy.h"
#include "deploy/launcher/process/worker_terminals.h"

namespace farandole::launcher {

class WorkerHost;

// Gets the starts, output and ends of the workers of all hosts. All is called on the loop's thread, some of it while
// the listener calls the host.
class WorkerHostListener {
 public:
  virtual ~WorkerHostListener() = default;

  // Once after Prepare: the workers can be started.
  virtual void OnReady(WorkerHost* worker_host) = 0;
  // At most once: they cannot be started, or not all of them, or the host is lost. In one sentence; NOT_FOUND and
  // PERMISSION_DENIED: the program cannot be executed. OnEnded follows for each worker that had not ended.
  virtual void OnFailed(WorkerHost* worker_host, const absl::Status& status) = 0;
  virtual void OnStarted(int worker, pid_t pid) = 0;
  // Empty: the stream has ended. `bytes` is valid during the call.
  virtual void OnOutput(int worker, Console::Stream stream, absl::string_view bytes) = 0;
  // Once for each worker that a host was told to start, after the worker's output.
  virtual void OnEnded(int worker, WorkerEnd end) = 0;
  // Something for people.
  virtual void OnRemark(const std::string& sentence) = 0;
};

// Where workers of a launch run: this process's children, or another host's agent. Owned by the launch or the agent;
// one thread; works by an EventLoop.
class WorkerHost {
 public:
  explicit WorkerHost(std::string host) : host_(std::move(host)) {}
  virtual ~WorkerHost() = default;
  WorkerHost(const WorkerHost&) = delete;
  WorkerHost& operator=(const WorkerHost&) = delete;

  // As the user names it.
  const std::string& host() const { return host_; }
  // As the machine names itself, and as its workers name it to the coordinator; after OnReady.
  virtual const std::string& hostname() const = 0;

  // Makes all ready; OnReady or OnFailed follows, perhaps at once.
  virtual void Prepare() = 0;
  // Gives up the start that Prepare has begun: OnFailed follows, with a sentence that has `why`.
  virtual void GiveUp(const std::string& why) = 0;
  // Starts the workers with these numbers (positions in the launch, each for the first time); after OnReady, as often
  // as there are more.
  virtual void Start(const std::vector<int>& workers) = 0;
  // Sends a signal to all workers that run; SIGKILL also hastens Finish.
  virtual void Signal(int signal, bool whole_group) = 0;
  // The same to one worker's process group, if it runs.
  virtual void SignalOne(int worker, int signal) = 0;
  // Workers that are started from now on write to terminals of these sizes, or to pipes; those that have terminals get
  // the sizes, and SIGWINCH.
  virtual void SetTerminals(const WorkerTerminals& terminals) = 0;
  // While held, the workers wait for their output to be read.
  virtual void HoldOutput(bool hold) = 0;
  // A child of this process has ended; true: it was one of this host's.
  virtual bool OnChildEnded(pid_t pid, WorkerEnd end) = 0;
  // Ends the remaining children of the workers, which have all ended, and brings the rest of their output.
  virtual void Finish() = 0;
  // Nothing runs any more, and nothing follows.
  virtual bool is_finished() const = 0;

 private:
  const std::string host_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_WORKER_HOSTS_WORKER_HOST_H_
