#ifndef FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_WORKER_OUTPUTS_H_
#define FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_WORKER_OUTPUTS_H_

#include <deque>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/event_loop.h"
#include "deploy/launcher/output/console.h"
#include "deploy/launcher/output/worker_output.h"
#include "deploy/launcher/process/alarm_clock.h"

namespace farandole::launcher {

// The output of all workers of a launch. Owned by the launch; one thread.
class WorkerOutputs {
 public:
  // `console` is borrowed.
  explicit WorkerOutputs(Console* console) : console_(console) {}

  // First of all.
  //   RESOURCE_EXHAUSTED  no timer can be made
  absl::Status Open(EventLoop* loop);
  // The next worker, counted from 0. `directory`, if it is not "": CopyToDirectory, for so many workers.
  absl::Status Add(const std::string& directory, int workers);
  // Empty: the stream has ended.
  void Push(int worker, Console::Stream stream, absl::string_view bytes);
  // After each round of the loop. The round has pushed all bytes that were written before it began.
  void Continue();
  // The terminal has shown the end of a line that was typed for the worker.
  void OnEnter(int worker);
  void FinishAll();

  const WorkerOutput& errors(int worker) const { return *workers_[worker].err; }

 private:
  struct Worker {
    std::unique_ptr<WorkerOutput> out;
    std::unique_ptr<WorkerOutput> err;
  };

  Console* const console_;
  std::unique_ptr<AlarmClock> clock_;
  std::deque<Worker> workers_;
  // Those that may have a line to show later, and those of this round.
  std::set<WorkerOutput*> waiting_;
  std::set<WorkerOutput*> pushed_;
  bool is_due_ = false;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_WORKER_OUTPUTS_H_
