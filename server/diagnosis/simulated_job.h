#ifndef FARANDOLE_SERVER_DIAGNOSIS_SIMULATED_JOB_H_
#define FARANDOLE_SERVER_DIAGNOSIS_SIMULATED_JOB_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/diagnosis/judge.h"
#include "server/diagnosis/measurements.h"

namespace farandole {

// A job in virtual time, whose ranks compute, wait for the last one, and exchange data, step by step; its hosts send
// heartbeats with what workers would measure. For tests of the judgement.
class SimulatedJob {
 public:
  struct Work {
    double own = 0;
    // How much of it the CPU is busy.
    double busy = 1;
    // How much of it is in the section "data", and in none; the rest is in "forward".
    double data = 0;
    double outside = 0;
  };
  // How a host sends to another one while a collective runs: for how much of that time, and bytes in each second of it.
  struct Link {
    double busy = 0;
    double rate = 0;
  };
  struct Plan {
    int ranks = 8;
    int ranks_per_host = 8;
    double own = 0.1;
    // Standard deviation of the own time, as a part of it.
    double noise = 0.02;
    double transfer = 0.01;
    // From the last rank's submission to the collective's begin, as where word travels over a slow link.
    double delay = 0;
    uint64_t seed = 1;
    // A rank's work in the step that begins at `now`, beyond the plan; `base` has the noise.
    std::function<Work(int rank, double now, double base)> work;
    std::function<Link(int from, int to, double now)> link;
    // Whether the program marks its sections.
    bool marks = false;
  };

  explicit SimulatedJob(Plan plan, MemoryBudget* budget = nullptr);

  // Goes on for `seconds`, and calls `look` about every two seconds.
  void Run(double seconds, const std::function<void()>& look = nullptr);
  // From the next beat on its beat stands still for as long.
  void Silence(int rank, double seconds) { silent_[rank] = seconds; }
  // All ranks that are not in `absent` wait, for `seconds`, and nothing comes of it.
  void Stand(const std::vector<int>& absent, double seconds);
  // By rank, as Present.last_slot.
  void SetSlot(int rank, uint32_t slot) { slots_[rank] = slot; }
  void SetGpuBusy(int rank, double busy) { gpus_[rank] = busy; }
  void SetTransfer(double seconds) { plan_.transfer = seconds; }

  Diagnosis Decide() const;
  Shares Totals() const;
  std::optional<Blocker> WorstOfAll() const;
  const Measurements& measurements() const { return measurements_; }
  const RollUpHistory& history() const { return history_.ranks; }
  absl::Time now() const { return TimeAt(now_); }
  static absl::Time TimeAt(double seconds) { return absl::FromUnixSeconds(1000) + absl::Seconds(seconds); }

 private:
  struct Sums {
    double waited = 0;
    double in_batch = 0;
    double cpu = 0;
    double data = 0;
    double forward = 0;
    uint64_t steps = 0;
  };
  void Step();
  // The beats until `until`; `at(rank, time)` has the rank's sums.
  void BeatUntil(double until, const std::function<Sums(int, double)>& at,
                 const std::function<double(int, double)>& waiting);
  void AddLinks(int host, double transfer, v1::Measures* measures) const;
  EpochFacts Around() const;

  Plan plan_;
  std::mt19937_64 random_;
  MeasuredHistory history_{"measured/acme/train/", nullptr};
  Measurements measurements_;
  double now_ = 0;
  double next_beat_ = 0.5;
  std::vector<Sums> sums_;
  std::vector<Sums> told_;
  std::vector<double> silent_;
  std::vector<uint32_t> slots_;
  std::vector<std::optional<double>> gpus_;
  std::vector<uint64_t> last_steps_;
  std::vector<double> alone_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_SIMULATED_JOB_H_
