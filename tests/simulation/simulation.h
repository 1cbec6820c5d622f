#ifndef FARANDOLE_TESTS_SIMULATION_SIMULATION_H_
#define FARANDOLE_TESTS_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/sim_coordinator.h"
#include "tests/simulation/sim_worker.h"
#include "tests/simulation/training_plan.h"
#include "tests/simulation/virtual_time.h"

namespace farandole {

// Whole launches of one job in one thread and in virtual time, with what goes wrong in them, all from a seed: the
// coordinator's core and the workers' link, table, engine, orderer and schedules are the real ones; processes, network
// and disk are not.
//
// What must hold: nothing hangs; results are right, and batches the same on all ranks; a launch in which nothing worse
// happens than a restart of the coordinator or a short silence trains to its end on all ranks; one in which a worker
// dies ends on all others with an error that names it; a step has one checkpoint at most.
class Simulation {
 public:
  explicit Simulation(uint32_t seed);

  // Empty, or what did not hold.
  std::string Run();
  // What happened, a line each.
  const std::vector<std::string>& history() const { return history_; }

 private:
  // The worst that is done to a launch.
  enum class Fault { kNone, kCut, kRestart, kPause, kPartition, kKill };

  void Launch();
  void RunFor(int64_t duration_ns);
  void PlanFaults();
  void Strike(Fault fault);
  void CheckEnd();
  void CheckOutcome(const SimWorker& worker);
  void CheckCatalogue();
  void Tell(const std::string& line);
  bool LingersOn() const;
  SimWorker& AnyWorker();

  VirtualTime time_;
  SimCoordinator coordinator_;
  SimSite site_;
  TrainingPlan plan_;
  int launch_ = 0;
  bool is_on_ = false;
  // Those of this launch, and those of earlier ones, which may be stopped and wake up late.
  std::vector<std::unique_ptr<SimWorker>> workers_;
  std::vector<std::unique_ptr<SimWorker>> earlier_;
  Fault worst_ = Fault::kNone;
  bool disagrees_ = false;
  bool restarts_ = false;
  bool has_ghost_ = false;  // a worker was killed before it had a rank
  int faults_ = 0;
  int killed_ = -1;  // the rank of the last worker that was
  std::vector<std::string> history_;
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_SIMULATION_H_
