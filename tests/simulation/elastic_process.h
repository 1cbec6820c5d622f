#ifndef FARANDOLE_TESTS_SIMULATION_ELASTIC_PROCESS_H_
#define FARANDOLE_TESTS_SIMULATION_ELASTIC_PROCESS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "tests/simulation/elastic_epoch.h"
#include "tests/simulation/sim_coordinator.h"
#include "tests/simulation/sim_network.h"
#include "tests/simulation/sim_process.h"

namespace farandole {

// The surroundings that all processes of a simulated elastic job share.
struct ElasticSite {
  VirtualTime* time = nullptr;
  SimCoordinator* coordinator = nullptr;
  // The coordinator is on kCoordinatorHost.
  SimNetwork* network = nullptr;
  std::string job;
  int first = 0;
  int least = 0;
  int most = 0;
  uint64_t incarnations = 0;
  // By number.
  std::map<uint64_t, std::unique_ptr<ElasticEpoch>> epochs;
  // The first broken invariant; empty: none.
  std::string violation;
  void Violate(const std::string& sentence) {
    if (violation.empty()) violation = sentence;
  }
};

inline constexpr char kCoordinatorHost[] = "coordinator";

// A process of a simulated elastic job, as far as the coordinator and its peers see it: it joins, takes steps with its
// epoch's peers, and joins again when the epoch is over, until the job has no place for it. Light, so that there may be
// ten thousand.
class ElasticProcess {
 public:
  ElasticProcess(ElasticSite* site, int64_t number, std::string host);

  SimProcess& process() { return *process_; }
  const SimProcess& process() const { return *process_; }
  int64_t number() const { return process_->pid(); }
  uint64_t epoch() const { return epoch_; }
  int rank() const { return rank_; }
  // Steps that its state has; those it had committed are never taken back.
  int64_t steps() const { return steps_; }
  void TakeSteps(int64_t steps) { steps_ = steps; }
  bool is_asked() const { return is_asked_; }
  bool has_stream() const { return stream_ != 0; }
  // Of which it was a member before it joined again; 0: none.
  uint64_t previous_epoch() const { return previous_epoch_; }
  // Something was done to it, so that it may have been counted as lost.
  bool is_disturbed() const { return is_disturbed_; }
  // It is in an epoch that has not ended for it.
  bool IsMember() const { return rank_ >= 0; }

  // It dies; its host closes its connections.
  void Kill();
  void Stop();
  // Its stream breaks, as the network to the coordinator is cut.
  void LoseStream();
  // All leave the epoch, to form the next.
  void MoveOn();
  void Say(v1::WorkerMessage message);
  std::string Describe() const;

 private:
  void Join();
  void OnJoined(uint64_t attempt, const Reply& reply);
  void Open();
  void OnMessage(const v1::CoordinatorMessage& message);
  void OnClosed(uint64_t attempt, const absl::Status& status);
  // `again` after a while, unless the coordinator has been away for too long.
  void Retry(std::function<void()> again);
  // Its epoch is over: joins again within `delay_ns`.
  void JoinAnew(int64_t delay_ns);
  bool IsCutOff() const { return site_->network->IsCut(process_->host(), kCoordinatorHost); }

  ElasticSite* const site_;
  const std::shared_ptr<SimProcess> process_;
  // Answers and words of earlier ones do not count.
  uint64_t attempt_ = 0;
  std::string incarnation_;
  std::string predecessor_;
  StreamId stream_ = 0;
  uint64_t epoch_ = 0;
  int rank_ = -1;
  bool is_asked_ = false;
  uint64_t previous_epoch_ = 0;
  bool is_disturbed_ = false;
  int64_t steps_ = 0;
  int64_t away_since_ns_ = -1;
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_ELASTIC_PROCESS_H_
