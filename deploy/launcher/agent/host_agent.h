#ifndef FARANDOLE_DEPLOY_LAUNCHER_AGENT_HOST_AGENT_H_
#define FARANDOLE_DEPLOY_LAUNCHER_AGENT_HOST_AGENT_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/event_loop.h"
#include "deploy/launcher/output/output_sink.h"
#include "deploy/launcher/process/alarm_clock.h"
#include "deploy/launcher/process/child_watch.h"
#include "deploy/launcher/process/guard.h"
#include "deploy/launcher/protocol/agent_frames.h"
#include "deploy/launcher/protocol/agent_messages.h"
#include "deploy/launcher/worker_hosts/local_worker_host.h"
#include "deploy/launcher/worker_hosts/worker_host.h"

namespace farandole::launcher {

// The surroundings that an agent needs.
struct HostAgentPlan {
  // Frames come and go here; borrowed.
  int input_fd = 0;
  int output_fd = 1;
  // A directory of its own, 0700, for the token and the certificate; its maker removes it.
  std::string private_directory;
  // "NAME=value": the variables below those of the order.
  std::vector<std::string> environment;
  // The path of farandole itself.
  std::string program;
  // Processor cores of this host that may be used.
  int cores = 1;
  // The first of `addresses` at which the coordinator proves itself by `ca_pem`.
  std::function<absl::StatusOr<std::string>(const std::vector<std::string>& addresses, const std::string& ca_pem)>
      find_coordinator;
  // How long the launcher may be silent; it says something every 10 s.
  absl::Duration silence_limit = absl::Seconds(60);
  GuardLink guard;
};

// Runs a launcher's workers on another host (`farandole host-agent`, started by ssh). It carries out the frames on its
// input (agent_frames.h) and reports the starts, output and ends of the workers on its output. It kills all workers
// when its input ends, when a frame is not valid, or when the launcher is silent for too long. If the order lets the
// workers outlive their launcher, it stops reporting instead, and ends with the last worker. Owned by the agent's
// process; one thread.
class HostAgent final : private WorkerHostListener {
 public:
  explicit HostAgent(HostAgentPlan plan);
  ~HostAgent() override;

  // Returns the exit code when nothing of it is left running: 0, or 1 if it was not told to finish.
  int Run();

 private:
  enum Stage { kAwaitingOrder, kReady, kRunning, kFinishing, kOver };

  absl::Status OpenEventSources();
  void OnInput();
  absl::Status OnFrame(const Frame& frame);
  void Obey(const AgentOrder& order);
  absl::Status OnGo(absl::string_view message);
  // Makes all that must exist before anything starts, in the order's directory.
  absl::Status Arrange(const AgentOrder& order);
  void Refuse(const absl::Status& status);
  void OnGuard();
  void OnSilence();
  void ExtendSilence();
  // The launcher is gone, or silent: stops everything, or goes on without it (AgentOrder::outlives_launcher).
  void LoseLauncher(const std::string& why);
  void FinishIfDeserted();
  // Kills all, says nothing more, and ends.
  void StopEverything(const std::string& why);
  void Send(FrameType type, absl::string_view message);

  void OnReady(WorkerHost* worker_host) override;
  void OnFailed(WorkerHost* worker_host, const absl::Status& status) override;
  void OnStarted(int worker, pid_t pid) override;
  void OnOutput(int worker, Console::Stream stream, absl::string_view bytes) override;
  void OnEnded(int worker, WorkerEnd end) override;
  void OnRemark(const std::string& sentence) override;

  const HostAgentPlan plan_;
  EventLoop loop_;
  OutputSink output_;
  FrameReader frames_;
  std::unique_ptr<AlarmClock> clock_;
  std::unique_ptr<ChildWatch> children_;
  std::unique_ptr<LocalWorkerHost> worker_host_;
  std::set<int> started_;
  int running_ = 0;
  bool outlives_launcher_ = false;
  bool is_orphan_ = false;
  Stage stage_ = kAwaitingOrder;
  bool is_stopped_ = false;
  // The launcher has told us to pause, so it is paused itself, and silent.
  bool is_paused_ = false;
  size_t travelling_bytes_ = 0;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_AGENT_HOST_AGENT_H_
