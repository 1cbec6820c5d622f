#ifndef FARANDOLE_DEPLOY_LAUNCHER_WORKER_HOSTS_LOCAL_WORKER_HOST_H_
#define FARANDOLE_DEPLOY_LAUNCHER_WORKER_HOSTS_LOCAL_WORKER_HOST_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "deploy/launcher/process/alarm_clock.h"
#include "deploy/launcher/process/worker_pipe.h"
#include "deploy/launcher/worker_hosts/worker_host.h"
#include "worker/measure/flight_memory.h"

namespace farandole::launcher {

// The name of this machine.
std::string OwnHostName();

// Workers that are children of this process, which is a launcher or an agent. Finish kills all descendants of this
// process, so call it when all its other children have ended.
class LocalWorkerHost final : public WorkerHost {
 public:
  struct Command {
    // The program's path (FindExecutable), and its arguments, beginning with its name as the user wrote it.
    std::string executable;
    std::vector<std::string> arguments;
    // All "NAME=value" of a worker. `slot`: the lowest number that no running worker here has.
    // `local_size`: how many are started with it.
    std::function<std::vector<std::string>(int worker, int slot, int local_size)> environment;
    // The rest of a worker's process group ends with it (SIGTERM); otherwise with this object.
    bool ends_groups = false;
    // How long to wait for a worker after SIGKILL. One that still exists hangs in the kernel: it is reported by pid,
    // and counts as ended by SIGKILL.
    absl::Duration kill_patience = absl::Seconds(10);
  };

  // `loop` and `listener` are borrowed. Without workers it only finishes.
  LocalWorkerHost(EventLoop* loop, WorkerHostListener* listener);
  ~LocalWorkerHost() override;

  // Before Start.
  void SetCommand(Command command) { command_ = std::move(command); }
  // Before Start: worker 0 reads from this descriptor, which is borrowed; the others read nothing.
  void SetInput(int fd) { input_fd_ = fd; }

  const std::string& hostname() const override { return host(); }
  void Prepare() override;
  void GiveUp(const std::string&) override {}
  void Start(const std::vector<int>& workers) override;
  void Signal(int signal, bool whole_group) override;
  void SignalOne(int worker, int signal) override;
  void SetTerminals(const WorkerTerminals& terminals) override;
  void HoldOutput(bool hold) override;
  bool OnChildEnded(pid_t pid, WorkerEnd end) override;
  void Finish() override;
  bool is_finished() const override { return stage_ == kFinished; }

 private:
  struct Worker {
    pid_t pid = -1;
    int slot = 0;
    bool is_running = false;
    // When it counts as ended, whether it has or not.
    absl::Duration give_up_at = absl::InfiniteDuration();
    std::unique_ptr<WorkerPipe> out;
    std::unique_ptr<WorkerPipe> err;
    // Null: there is no memory for it, or its worker has ended.
    std::unique_ptr<FlightMemory> flight;
  };
  enum Stage { kWorking, kSweeping, kSweepingHard, kDraining, kFinished };

  absl::Status StartOne(int number, int local_size, int stdin_fd);
  int LowestFreeSlot() const;
  void SendSignal(Worker* worker, int signal, bool whole_group);
  // Tells of its end, with what its flight recorder has kept.
  void TellEnd(int number, WorkerEnd end);
  void SetAlarm();
  void GiveUpHanging();
  bool OnlyHangingAreLeft() const;
  void Drain(Worker* worker);
  void SweepHard();
  void OnAlarm();
  void ContinueSweep();
  void DrainAll();

  EventLoop* const loop_;
  WorkerHostListener* const listener_;
  Command command_;
  int input_fd_ = -1;
  WorkerTerminals terminals_;
  std::unique_ptr<AlarmClock> clock_;
  // By their numbers: all that were started.
  std::map<int, Worker> workers_;
  // Processes that SIGKILL does not end, and that were named.
  std::set<pid_t> hanging_;
  Stage stage_ = kWorking;
  bool is_held_ = false;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_WORKER_HOSTS_LOCAL_WORKER_HOST_H_
