#ifndef FARANDOLE_TESTS_SIMULATION_SIMULATION_H_
#define FARANDOLE_TESTS_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/sim_coordinator.h"
#include "tests/simulation/sim_network.h"
#include "tests/simulation/sim_worker.h"
#include "tests/simulation/training_plan.h"
#include "tests/simulation/virtual_time.h"

namespace farandole {

// Whole launches of one job in one thread and in virtual time, with misfortunes in them, all from a seed: the
// coordinator's core and the workers' link, table, engine, orderer, pages, tree of leaders and schedules are the real
// ones; processes, network and disk are not.
//
// Invariants: nothing hangs; results are right, and batches the same on all ranks; a launch whose worst misfortune is a
// restart of the coordinator, a step of its wall clock or a short cut between hosts trains to its end on all ranks; a
// process that ends with an error names first a process that met a misfortune; a step has one checkpoint at most.
class Simulation {
 public:
  explicit Simulation(uint32_t seed);

  // Empty, or what did not hold.
  std::string Run();
  // The events, a line each.
  const std::vector<std::string>& history() const { return history_; }

 private:
  // The worst that is done to a launch.
  enum class Fault { kNone, kCut, kRestart, kPause, kPartition, kLongCut, kBreak, kIsolate, kKill };

  void Launch();
  void RunFor(int64_t duration_ns);
  void PlanFaults();
  void Strike(Fault fault);
  void Restart();
  void StepClock();
  void Pause(SimWorker& worker);
  void Partition(SimWorker& worker, int64_t for_ns);
  // Cuts the hosts of two workers from each other; false: they share one, or are cut already.
  bool Cut(const SimWorker& worker, const SimWorker& other, int64_t for_ns);
  bool Break();
  // Cuts a host from everything.
  void Isolate(const SimWorker& worker, int64_t for_ns);
  void Kill(SimWorker& worker);
  // Something was done to a process or its host: it may be named.
  void Blame(const SimWorker& worker);
  void BlameHost(const std::string& host);
  void CheckEnd();
  void CheckOutcome(const SimWorker& worker);
  void CheckCatalogue();
  void Tell(const std::string& line);
  bool LingersOn() const;
  // Some have left in order.
  bool HasLeft() const;
  SimWorker& AnyWorker();
  // Each other time one that leads its host.
  SimWorker& AnyVictim();
  bool IsGone(const SimWorker& worker) const;
  // Whether the first process that the sentence names is to blame.
  bool NamesCulprit(const std::string& sentence) const;

  VirtualTime time_;
  SimNetwork network_;
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
  bool has_ghost_ = false;      // a worker was killed before it had a rank
  std::set<int64_t> culprits_;  // pids
  std::vector<std::string> history_;
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_SIMULATION_H_
