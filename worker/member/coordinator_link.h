#ifndef FARANDOLE_WORKER_MEMBER_COORDINATOR_LINK_H_
#define FARANDOLE_WORKER_MEMBER_COORDINATOR_LINK_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "worker/control/conversation.h"
#include "worker/core/hosts.h"
#include "worker/core/lineage.h"
#include "worker/core/log.h"
#include "worker/core/pauses.h"
#include "worker/device/nccl/gpu_collectives.h"
#include "worker/engine/engine.h"
#include "worker/launch/options.h"
#include "worker/member/checkpoint_wish.h"
#include "worker/member/gpu_health.h"
#include "worker/member/group_requests.h"
#include "worker/member/host_measures.h"
#include "worker/member/host_pulses.h"
#include "worker/member/lasting_parts.h"
#include "worker/member/program_reports.h"
#include "worker/member/stall_reporter.h"

namespace farandole {

// This worker's conversation with the coordinator in one epoch: turns the engine's needs into messages and the
// coordinator's messages into the engine's events, reports signs of life and stalls, and watches peers' processes. Its
// callbacks run on the client's control thread; the other calls come from any thread.
class CoordinatorLink final : public ControlLink {
 public:
  // Joins. Fails as CoordinatorClient::Start does.
  static absl::StatusOr<std::unique_ptr<CoordinatorLink>> Join(const WorkerOptions& options, const Lineage& lineage,
                                                               const std::vector<std::string>& endpoints,
                                                               std::function<bool()> interrupted);
  // As above, over a transport other than gRPC. `start` creates the conversation with the given callbacks.
  using Starter =
      std::function<absl::StatusOr<std::unique_ptr<Conversation>>(v1::JoinRequest, Conversation::Callbacks)>;
  static absl::StatusOr<std::unique_ptr<CoordinatorLink>> JoinOver(const WorkerOptions& options, const Lineage& lineage,
                                                                   const v1::Member& member, const Starter& start);
  ~CoordinatorLink() override;

  // Waits until the epoch has formed, or fails with the reason. ABORTED: interrupted; CANCELLED: the job has finished.
  absl::StatusOr<v1::Epoch> AwaitEpoch(const std::function<bool()>& interrupted);
  // Tells the coordinator that a process which was launched for the job has ended, as v1::ProcessEnded.
  void TellEnded(int launch_index, const std::string& sentence);
  // Whether AwaitEpoch would give one at once.
  bool has_epoch() const;
  // OK, or why the epoch or the conversation has ended.
  absl::Status ended() const;
  // As ended(), for which it waits at most until `deadline`, or until `interrupted`.
  absl::Status AwaitEnd(absl::Time deadline, const std::function<bool()>& interrupted) const;
  // The state of the epoch's end.
  enum class Course {
    kRuns,      // it has not ended
    kGoesOn,    // its job outlives it, or the conversation has ended, so that the coordinator is to be asked
    kFailed,    // its job has failed
    kFinished,  // its job has ended in order
  };
  Course course() const;
  // Whether this worker has the lowest rank of those that outlive the epoch, as far as the coordinator has said.
  bool LeadsSurvivors() const;
  // Once the epoch has formed: watches the processes of this host's other ranks, and reports those that end, also
  // before Connect; the coordinator knows which ranks have left.
  absl::Status Watch(const Hosts& hosts, std::vector<std::string> who);
  // After Watch: from now on events go to the engine; those that came before first. `channel` as the engine's.
  // It watches the GPU for work that hangs or fails, too. `gpus` and `sending` (Connections::Sending) may be null.
  void Connect(Engine* engine, ReadyChannel* channel, GpuCollectives* gpus, HostMeasures::ReadSending sending = nullptr,
               const LastingParts& lasting = {});
  // Any thread: the connection to a rank of another host, which has not left, is lost. Reports this to the coordinator.
  // The coordinator may know the true cause, such as the death of a third rank, and then ends the epoch with that
  // reason. Without an answer within 2 s, the epoch ends with `verdict`. `evidence` as in PeerLost.
  void ReportLost(int rank, const std::string& evidence, const absl::Status& verdict);
  // Tells the coordinator that this worker leaves; no events any more. Once. All as in v1::Leave.
  void Leave(const std::string& reason, const std::string& failure = "", bool returns = false,
             const std::vector<int>& left = {});
  // Tells the coordinator that another program will end this process; as v1::Departing.
  void Depart(absl::Duration grace, const std::string& reason);
  // The coordinator's last message on workers that are to come or to go; its serial is 0 where there was none.
  v1::ChangeWanted change_wanted() const;
  // Ends the conversation, without Leave unless that was sent; no events follow. Afterwards it may only be destroyed.
  void Silence();
  // Collective: waits until all ranks asked for the same. ABORTED: interrupted, ended; INVALID_ARGUMENT: they differ.
  absl::StatusOr<uint32_t> ChangeGroup(const std::vector<int>& ranks, uint32_t remove,
                                       const std::function<bool()>& interrupted);

  Conversation& conversation() { return *conversation_; }
  CheckpointWish& checkpoint_wish() { return checkpoint_wish_; }
  const std::string& incarnation() const { return incarnation_; }
  const std::string& secret() const { return secret_; }
  const std::string& job() const { return job_; }
  uint64_t messages() const { return group_messages_.load(); }

  // ControlLink:
  void Negotiate(const Submission& submission, uint32_t retired_slot, uint32_t disputed_slot, uint32_t attempt,
                 uint32_t ordinal) override;
  void ReportRetired(uint32_t slot) override;

 private:
  CoordinatorLink(const WorkerOptions& options, const Lineage& lineage, const v1::Member& member);
  v1::Hello MakeHello() const;
  void OnMessage(const v1::CoordinatorMessage& message);
  void Deliver(const v1::CoordinatorMessage& message);
  void OnGroupAssigned(const v1::GroupAssigned& assigned);
  void OnEpochEnded(const v1::EpochEnded& ended);
  void OnAttached();
  void OnEnded(const absl::Status& status);
  void OnTick();
  void SendOwnPulse();
  void SendHeartbeat(int64_t now_ns);
  void SendStallReport(uint64_t inquiry);
  void WatchForStall(int64_t now_ns);
  void WatchGpu(int64_t now_ns);
  void OnPeerExit(int rank);
  void SendPeerLost(v1::PeerLost lost);
  void SendDeparting();
  absl::Status Death(int rank) const;
  void SendGroupRequest(const v1::GroupRequest& request);

  const std::string incarnation_;
  const std::string secret_;
  const std::string job_;
  const WorkerLog log_;
  const bool speaks_;  // this worker writes what concerns the whole job to the log
  std::atomic<uint64_t> group_messages_{0};

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool has_epoch_ = false;
  v1::Epoch epoch_;
  int rank_ = -1;
  absl::Status ended_;
  Course course_ = Course::kRuns;
  std::vector<uint32_t> lost_ranks_;
  v1::ChangeWanted change_wanted_;
  std::optional<v1::Departing> departing_;
  CheckpointWish checkpoint_wish_;
  Engine* engine_ = nullptr;
  ReadyChannel* channel_ = nullptr;
  std::vector<v1::CoordinatorMessage> early_;
  GroupRequests group_requests_;

  // Held while `conversation_` is used by threads that do not know whether it is there any more.
  std::mutex silence_mutex_;
  bool is_silenced_ = false;

  // Control thread only, once connected.
  HostPulses pulses_;
  HostMeasures measures_;
  Pauses pauses_;
  GpuHealth gpu_health_;
  const WitnessSources sources_;
  StallReporter stalls_;
  std::unique_ptr<ProgramReports> reports_;
  // The time at which the epoch ends with verdict_, unless the coordinator has ended it before; 0: none.
  int64_t verdict_ns_ = 0;
  absl::Status verdict_;
  // Losses reported so far; sent again after a reattachment, as the new coordinator has not heard them.
  std::vector<v1::PeerLost> lost_;
  // Ranks whose processes have ended before the engine was there.
  std::vector<int> early_exits_;
  std::vector<std::string> who_;
  uint64_t beat_ = 0;
  bool waited_before_ = false;

  std::unique_ptr<Conversation> conversation_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_COORDINATOR_LINK_H_
