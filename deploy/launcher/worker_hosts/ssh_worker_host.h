#ifndef FARANDOLE_DEPLOY_LAUNCHER_WORKER_HOSTS_SSH_WORKER_HOST_H_
#define FARANDOLE_DEPLOY_LAUNCHER_WORKER_HOSTS_SSH_WORKER_HOST_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/event_loop.h"
#include "deploy/launcher/output/line_splitter.h"
#include "deploy/launcher/output/line_tail.h"
#include "deploy/launcher/output/output_sink.h"
#include "deploy/launcher/process/alarm_clock.h"
#include "deploy/launcher/process/worker_pipe.h"
#include "deploy/launcher/protocol/agent_frames.h"
#include "deploy/launcher/protocol/agent_messages.h"
#include "deploy/launcher/worker_hosts/worker_host.h"

namespace farandole::launcher {

// How another host is reached. Nothing of it is secret.
struct SshOptions {
  // The client's path.
  std::string client;
  // 0, "": as ssh's own configuration says.
  int port = 0;
  std::string identity_file;
  std::string config_file;
  // Paths of farandole on the other host, in the order in which they are tried; IsPlainPath holds for each.
  std::vector<std::string> programs;
  // Of the ssh client: "NAME=value".
  std::vector<std::string> environment;
  absl::Duration connect_limit = absl::Seconds(30);
};

// No character of it means anything to any shell.
bool IsPlainPath(absl::string_view path);

// The client's arguments. No data of the user's is on them but the host, options of ssh, and a plain path.
std::vector<std::string> SshArguments(const SshOptions& options, const std::string& host, const std::string& program);

// Workers on another host, behind one ssh client and the agent that it runs there (host_agent.h). Everything that the
// agent is to know travels over its standard input.
class SshWorkerHost final : public WorkerHost {
 public:
  // `loop` and `listener` are borrowed.
  SshWorkerHost(std::string host, SshOptions options, AgentOrder order, EventLoop* loop, WorkerHostListener* listener);
  ~SshWorkerHost() override;

  const std::string& hostname() const override { return hostname_; }
  void Prepare() override;
  void GiveUp(const std::string& why) override;
  void Start(const std::vector<int>& workers) override;
  void Signal(int signal, bool whole_group) override;
  void SignalOne(int worker, int signal) override;
  void SetTerminals(const WorkerTerminals& terminals) override;
  void HoldOutput(bool hold) override;
  bool OnChildEnded(pid_t pid, WorkerEnd end) override;
  void Finish() override;
  bool is_finished() const override { return stage_ == kOver && pid_ < 0; }

 private:
  // kOver: nothing that the agent says counts any more; ssh may still have to end.
  enum Stage { kConnecting, kPreparing, kReady, kRunning, kFinishing, kOver };

  // Runs ssh with the next path; OnFailed where that is not possible.
  void Connect();
  void OnOutput(absl::string_view bytes);
  void ReadFrames(absl::string_view bytes);
  absl::Status OnFrame(const Frame& frame);
  absl::Status OnHello(absl::string_view message);
  absl::Status OnReady(absl::string_view message);
  absl::Status OnRefused(absl::string_view message);
  absl::Status OnStarted(absl::string_view message);
  absl::Status OnWorkerOutput(absl::string_view message);
  absl::Status OnWorkerEnded(absl::string_view message);
  void SayTaken();
  void Send(FrameType type, absl::string_view message);

  // Once: the host cannot be used, or is lost.
  void Fail(const absl::Status& status);
  absl::Status DescribeEnd(WorkerEnd end) const;
  // The output of ssh and of the command it ran, for the end of a sentence; "" for none.
  std::string Words() const;
  void CloseInput();
  void KillClient();
  void OnAlarm();
  void SetAlarm();

  const SshOptions options_;
  const AgentOrder order_;
  EventLoop* const loop_;
  WorkerHostListener* const listener_;
  Stage stage_ = kConnecting;
  std::unique_ptr<AlarmClock> clock_;
  absl::Duration kill_at_ = absl::InfiniteDuration();
  absl::Duration beat_at_ = absl::InfiniteDuration();

  size_t attempt_ = 0;
  pid_t pid_ = -1;
  int input_fd_ = -1;
  std::unique_ptr<OutputSink> input_;
  std::unique_ptr<WorkerPipe> out_;
  std::unique_ptr<WorkerPipe> err_;
  GreetingFinder greeting_;
  bool is_greeted_ = false;
  FrameReader frames_;
  LineSplitter err_lines_;
  LineTail words_;

  std::string hostname_;
  // Workers that were due and have not ended.
  std::set<int> running_;
  // All that were ever due: their remaining children may print after them.
  std::set<int> started_;
  WorkerTerminals terminals_;
  bool is_held_ = false;
  uint32_t taken_bytes_ = 0;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_WORKER_HOSTS_SSH_WORKER_HOST_H_
