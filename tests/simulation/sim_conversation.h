#ifndef FARANDOLE_TESTS_SIMULATION_SIM_CONVERSATION_H_
#define FARANDOLE_TESTS_SIMULATION_SIM_CONVERSATION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "tests/simulation/sim_coordinator.h"
#include "worker/control/conversation.h"

namespace farandole {

// Processes by id, for those that watch them.
using ProcessTable = std::map<int64_t, std::shared_ptr<SimProcess>>;

// A worker's conversation with a SimCoordinator: joins, opens the stream, and opens it again when it breaks, until the
// coordinator has been away for too long. Its control thread is the process's events.
class SimConversation final : public Conversation {
 public:
  // How long the coordinator may be away.
  static constexpr int64_t kOutageLimitNs = 30 * kSecond;
  static constexpr absl::Duration kTick = absl::Milliseconds(500);

  // `after_event` is called after each callback.
  SimConversation(SimCoordinator* coordinator, const ProcessTable* processes, std::shared_ptr<SimProcess> process,
                  v1::JoinRequest join, Callbacks callbacks, std::function<void()> after_event);
  ~SimConversation() override;

  void Send(v1::WorkerMessage message) override;
  bool IsAttached() const override { return stream_ != 0; }
  void Post(std::function<void()> function) override;
  absl::Status WatchProcess(int64_t pid, std::function<void()> on_exit) override;
  int64_t NowNs() const override { return VirtualTime::NowNs(); }
  absl::Duration tick_interval() const override { return kTick; }
  // The simulated program asks the coordinator itself, since nothing may block.
  absl::StatusOr<v1::BeginCheckpointResponse> BeginCheckpoint(v1::BeginCheckpointRequest request) override;
  absl::StatusOr<v1::CommitCheckpointResponse> CommitCheckpoint(v1::CommitCheckpointRequest request) override;
  absl::StatusOr<v1::FindCheckpointResponse> FindCheckpoint(v1::FindCheckpointRequest request) override;
  // Returns at once; is_over tells when the coordinator has answered, or was waited for long enough.
  void Leave(v1::Leave leave, absl::Duration timeout) override;
  bool is_over() const { return ended_; }

  // The network between this worker and the coordinator fails for a while.
  void Partition(int64_t for_ns);

 private:
  // Runs `event` later, unless the conversation is over.
  void Later(int64_t delay_ns, std::function<void()> event);
  // The same for a moment: messages of an earlier stream do not count.
  void Join();
  void OpenStream();
  void OnClosed(uint64_t attempt, const absl::Status& status);
  void RetryAfter(const absl::Status& cause, std::function<void()> again);
  void End(const absl::Status& status);
  void Tick();

  SimCoordinator* const coordinator_;
  const ProcessTable* const processes_;
  const std::shared_ptr<SimProcess> process_;
  const v1::JoinRequest join_;
  const Callbacks callbacks_;
  const std::function<void()> after_event_;
  // Shared with events on their way, which do nothing once it is false.
  const std::shared_ptr<bool> is_alive_;
  bool ended_ = false;
  StreamId stream_ = 0;
  uint64_t attempts_ = 0;  // streams that were opened
  int64_t away_since_ns_ = -1;
  int64_t partitioned_until_ns_ = -1;
  std::function<void()> leave_;
};

}  // namespace farandole

#endif  // FARANDOLE_TESTS_SIMULATION_SIM_CONVERSATION_H_
