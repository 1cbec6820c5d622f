#ifndef FARANDOLE_TESTS_SIMULATION_ELASTIC_SIMULATION_H_
#define FARANDOLE_TESTS_SIMULATION_ELASTIC_SIMULATION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/simulation/elastic_process.h"
#include "tests/simulation/sim_coordinator.h"
#include "tests/simulation/sim_network.h"
#include "tests/simulation/virtual_time.h"

namespace farandole {

// An elastic job in virtual time, from a seed: the coordinator's real core, and processes that are killed, stopped and
// started anew, hosts that are lost and cut from each other or from the coordinator, drains, and a coordinator that
// crashes, or has its wall clock set.
//
// Invariants: all members of an epoch hear the same of it, and none is in it twice; its rank 0 was in the epoch before
// if any member was; a step adds up the values of all its members, and no step that a survivor had done is done again;
// and when the misfortunes are over, all living workers take steps in one epoch, except for spares.
class ElasticSimulation {
 public:
  struct Scale {
    int workers;
    int hosts;
    int faults;
    int64_t duration_ns;
    // Seconds of virtual time in which all must be settled.
    int64_t settle_ns;
  };
  // A job of a few workers.
  static Scale Small(uint32_t seed);

  ElasticSimulation(uint32_t seed, Scale scale);

  // Empty, or what did not hold.
  std::string Run();
  // The events, a line each.
  const std::vector<std::string>& history() const { return history_; }
  size_t epochs() const { return site_.epochs.size(); }
  int64_t steps() const;

 private:
  void Start(const std::string& host);
  // A launcher sees a process end, and starts another one.
  void Replace(const ElasticProcess& process);
  void Strike();
  void Kill(ElasticProcess* process);
  void LoseHost();
  void Stop(ElasticProcess* process);
  void Cut();
  void CutFromCoordinator(const std::string& host, int64_t for_ns);
  void Isolate();
  void Crash();
  void StepClock();
  void Drain();
  // Whether all living workers are in one epoch, except for spares, and it has taken steps.
  bool IsSettled() const;
  // Each second.
  void LookForSettled(bool* is_settled);
  std::string WhoHangs() const;
  ElasticProcess* AnyProcess();
  std::string AnyHost() { return absl::StrCat("host", time_.Between(0, scale_.hosts - 1)); }
  void Tell(const std::string& line);

  const Scale scale_;
  VirtualTime time_;
  SimNetwork network_;
  SimCoordinator coordinator_;
  ElasticSite site_;
  const bool has_launcher_;
  // Also those that are dead.
  std::vector<std::unique_ptr<ElasticProcess>> processes_;
  bool is_calm_ = false;
  std::vector<std::string> history_;
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_ELASTIC_SIMULATION_H_
