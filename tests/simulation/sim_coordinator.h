#ifndef FARANDOLE_TESTS_SIMULATION_SIM_COORDINATOR_H_
#define FARANDOLE_TESTS_SIMULATION_SIM_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/job/job.h"
#include "tests/simulation/sim_process.h"
#include "tests/simulation/virtual_time.h"

namespace farandole {

// A coordinator with one job: the real core, with a store that takes its time, and streams that keep order. A crash
// loses the state that was not yet durable, with all messages that it would have caused. As SteadyNow, the clock of a
// life begins at the wall clock's time and does not step.
class SimCoordinator {
 public:
  SimCoordinator(VirtualTime* time, std::string job);

  bool is_up() const { return job_ != nullptr; }
  void Crash();
  void Restart();
  // Sets the wall clock of the coordinator's machine.
  void StepWallClock(absl::Duration step) { wall_ahead_ += step; }

  // Where the coordinator's words about a stream go; called in the worker's process.
  struct Listener {
    std::shared_ptr<SimProcess> process;
    std::function<void(const v1::CoordinatorMessage&)> on_message;
    std::function<void(const absl::Status&)> on_closed;
  };
  // A unary call; `answer` is called in `caller`, with UNAVAILABLE where the coordinator is or goes away.
  void Call(const std::shared_ptr<SimProcess>& caller, const std::function<Event(CallId)>& make,
            std::function<void(const Reply&)> answer);
  // Opens a stream; its number is never used again. `on_closed` is called once, unless the worker has ended it.
  StreamId Open(v1::Hello hello, Listener listener);
  void Send(StreamId stream, v1::WorkerMessage message);
  // The worker's side ends; `evidence` is what the coordinator sees of it.
  void End(StreamId stream, const std::string& evidence);

  // The durable catalogue.
  v1::ListCheckpointsResponse Catalogue();
  const v1::JobSummary& summary() const { return summary_; }

 private:
  struct Stream {
    Listener listener;
    InOrder in;
    InOrder out;
  };
  struct Asked {
    std::shared_ptr<SimProcess> caller;
    std::function<void(const Reply&)> answer;
  };

  absl::Time Now() const { return VirtualTime::Now() + began_ahead_; }
  int64_t Delay();
  void Take(const Event& event);
  void Act(const Output& output);
  void Tick(absl::Time at);
  void Persist(const StoreBatch& batch);

  VirtualTime* const time_;
  const std::string name_;
  std::unique_ptr<Job> job_;
  // Events of an earlier life are dropped.
  uint64_t life_ = 0;
  // By how much the wall clock was ahead of virtual time when this life began, and by how much it was set since.
  absl::Duration began_ahead_ = absl::ZeroDuration();
  absl::Duration wall_ahead_ = absl::ZeroDuration();
  uint64_t secrets_ = 0;
  CallId last_call_ = 0;
  StreamId last_stream_ = 0;
  std::map<StreamId, Stream> streams_;
  std::map<CallId, Asked> calls_;
  std::map<std::string, std::string> rows_;
  InOrder commits_;
  absl::Time next_tick_ = absl::InfiniteFuture();
  v1::JobSummary summary_;
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_SIM_COORDINATOR_H_
