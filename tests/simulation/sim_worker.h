#ifndef FARANDOLE_TESTS_SIMULATION_SIM_WORKER_H_
#define FARANDOLE_TESTS_SIMULATION_SIM_WORKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/sim_connections.h"
#include "tests/simulation/sim_conversation.h"
#include "tests/simulation/sim_coordinator.h"
#include "tests/simulation/sim_epoch.h"
#include "tests/simulation/training_plan.h"
#include "worker/collectives/buffer_pool.h"
#include "worker/engine/engine.h"
#include "worker/member/coordinator_link.h"

namespace farandole {

// The surroundings that all workers share.
struct SimSite {
  VirtualTime* time = nullptr;
  SimCoordinator* coordinator = nullptr;
  SimNetwork* network = nullptr;
  SimBounds bounds;
  ProcessTable processes;
  // By the epoch's number.
  std::map<uint64_t, std::unique_ptr<SimEpoch>> epochs;
  // Each batch by epoch and sequence, as the first rank that ran it saw it.
  std::map<std::pair<uint64_t, uint64_t>, std::string> batches;
  // The first broken invariant; empty: none.
  std::string violation;
  void Violate(const std::string& sentence) {
    if (violation.empty()) violation = sentence;
  }
};

// One worker process of a simulated job: the real link, engine and schedules, and a training program.
class SimWorker {
 public:
  SimWorker(SimSite* site, const TrainingPlan* plan, std::string job, int index, int workers, std::string host);
  ~SimWorker();

  SimProcess& process() { return *process_; }
  const SimProcess& process() const { return *process_; }
  SimConversation* conversation() { return conversation_; }
  int rank() const { return rank_; }
  // Whether it carries readiness and order for its host.
  bool leads() const { return engine_ != nullptr && connections_->channel().Relays(); }
  // Whether it has met its peers.
  bool has_met() const { return has_met_; }
  // How the program has ended; empty while it runs.
  const std::optional<absl::Status>& outcome() const { return outcome_; }
  // Says what it waits for, for people.
  std::string Describe() const;
  void Kill();

 private:
  struct Pending {
    size_t tensor = 0;
    int64_t handle = 0;
    std::vector<float> values;
    std::vector<int64_t> shape;
  };

  // Looks at everything soon.
  void Wake();
  void Look();
  // Looks at everything now and then, as threads do that wait.
  void LookAgain();
  // The epoch has formed: finds its place, and goes to meet its peers.
  void Arrive();
  // True: it has met them all.
  bool Meet();
  void MakeEngine();
  absl::StatusOr<std::unique_ptr<Operation>> StartCollective(const Collective& collective);
  void Train();
  bool SubmitNext();
  // Takes complete submissions; false: some are not.
  bool Collect();
  void Check(const Pending& pending, const absl::Status& status);
  float Expected(const TrainingPlan::Tensor& tensor, size_t index, int64_t element) const;
  void CheckGathered(const Pending& pending);
  void WriteCheckpoint(int64_t step);
  void Leave();
  void End(const absl::Status& outcome);
  // The program drops what it has of the library.
  void Close();

  SimSite* const site_;
  const TrainingPlan* const plan_;
  const std::string job_;
  const int index_;
  const int workers_;
  const std::shared_ptr<SimProcess> process_;
  std::unique_ptr<CoordinatorLink> link_;
  SimConversation* conversation_ = nullptr;  // owned by `link_`
  SimEpoch* place_ = nullptr;
  int rank_ = -1;
  uint64_t epoch_ = 0;
  std::vector<std::string> who_;
  int64_t arrived_ns_ = 0;
  bool has_met_ = false;
  std::unique_ptr<SimConnections> connections_;
  BufferPool buffers_{1 << 20};
  std::unique_ptr<Engine> engine_;
  bool is_looking_soon_ = false;

  size_t step_ = 0;
  std::vector<size_t> order_;  // of this step's tensors that are not submitted yet
  bool has_begun_step_ = false;
  int64_t next_submission_ns_ = 0;
  std::vector<std::unique_ptr<Pending>> pending_;
  bool is_writing_ = false;
  bool has_left_ = false;
  std::optional<absl::Status> outcome_;
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_SIM_WORKER_H_
