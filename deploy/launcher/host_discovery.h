#ifndef FARANDOLE_DEPLOY_LAUNCHER_HOST_DISCOVERY_H_
#define FARANDOLE_DEPLOY_LAUNCHER_HOST_DISCOVERY_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/event_loop.h"
#include "deploy/launcher/output/line_splitter.h"
#include "deploy/launcher/output/line_tail.h"
#include "deploy/launcher/policy/host_list.h"
#include "deploy/launcher/policy/stop_policy.h"
#include "deploy/launcher/process/alarm_clock.h"
#include "deploy/launcher/process/worker_pipe.h"

namespace farandole::launcher {

// Asks a command of the user's, again and again, which hosts there are. Owned by the launch; one thread; works by an
// EventLoop.
class HostDiscovery {
 public:
  struct Plan {
    // For `sh -c`. Its output: ParseDiscovered.
    std::string command;
    int default_slots = 1;
    // "NAME=value".
    std::vector<std::string> environment;
    // From one answer to the next question, and for how long an answer is waited for.
    absl::Duration interval = absl::Seconds(1);
    absl::Duration limit = absl::Seconds(10);
  };
  // A list; or why there was none, in one sentence, which is not said again as long as it stays the same.
  using OnHosts = std::function<void(absl::StatusOr<std::vector<HostSlots>> hosts)>;

  // `loop` is borrowed. The first question is asked at once.
  //   RESOURCE_EXHAUSTED  no timer can be made
  static absl::StatusOr<std::unique_ptr<HostDiscovery>> Make(Plan plan, EventLoop* loop, OnHosts on_hosts);
  ~HostDiscovery();
  HostDiscovery(const HostDiscovery&) = delete;
  HostDiscovery& operator=(const HostDiscovery&) = delete;

  // A child of this process has ended; true: it was the command.
  bool OnChildEnded(pid_t pid, WorkerEnd end);

 private:
  HostDiscovery(Plan plan, EventLoop* loop, OnHosts on_hosts);

  void OnAlarm();
  void Ask();
  void OnOutput(absl::string_view bytes);
  void Kill();
  void Tell(absl::StatusOr<std::vector<HostSlots>> hosts);
  absl::Status DescribeFailure(WorkerEnd end) const;

  const Plan plan_;
  EventLoop* const loop_;
  const OnHosts on_hosts_;
  std::unique_ptr<AlarmClock> clock_;
  pid_t pid_ = -1;
  bool is_late_ = false;
  std::unique_ptr<WorkerPipe> out_;
  std::unique_ptr<WorkerPipe> err_;
  std::string output_;
  LineSplitter err_lines_;
  LineTail words_;
  std::string last_failure_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_HOST_DISCOVERY_H_
