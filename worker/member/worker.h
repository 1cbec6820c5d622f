#ifndef FARANDOLE_WORKER_MEMBER_WORKER_H_
#define FARANDOLE_WORKER_MEMBER_WORKER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collectives/buffer_pool.h"
#include "worker/core/hosts.h"
#include "worker/core/lineage.h"
#include "worker/device/nccl/gpu_collectives.h"
#include "worker/engine/engine.h"
#include "worker/launch/options.h"
#include "worker/measure/flight_memory.h"
#include "worker/member/arenas.h"
#include "worker/member/checkpoint_question.h"
#include "worker/member/checkpoint_session.h"
#include "worker/member/connections.h"
#include "worker/member/coordinator_link.h"
#include "worker/member/lasting_parts.h"

namespace farandole {

// Asked about every 100 ms by calls that wait; true gives up. May be empty.
using Interrupted = std::function<bool()>;

// One process's part in one epoch of a job: the conversation with the coordinator, the connections with peers, and the
// engine. Thread-safe except for Start, MoveOn, Shutdown and destruction: one of these runs at a time, and destruction
// when no other call runs.
class Worker {
 public:
  // Joins, and connects to the peers. Fails as farandole_init says, at the end of an epoch in any case. `lineage`, the
  // process's history, is kept up to date also if this fails. `lasting` has a timeline, stacks and a queue.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(WorkerOptions options, Lineage* lineage,
                                                       const LastingParts& lasting, const Interrupted& interrupted);
  ~Worker();

  // The program has failed: ends the epoch on all ranks, with `words` as the reason. Call Shutdown afterwards.
  void Fail(const std::string& words);
  // Leaves the job. Afterwards submissions end with ABORTED until destruction.
  absl::Status Shutdown(const Interrupted& interrupted);
  // Leaves the epoch, in order if it has not ended, to join the job's next one: `lineage` gets the state that the next
  // epoch begins with. Afterwards submissions end with ABORTED until destruction.
  //   ABORTED    interrupted, and nothing else has happened; or `*job_over`: the job has failed
  //   CANCELLED  `*job_over`: the job has finished
  absl::Status MoveOn(Lineage* lineage, bool* job_over, const Interrupted& interrupted);

  Engine& engine() { return *engine_; }
  // FAILED_PRECONDITION: not all ranks can exchange data of GPUs in the same way; the text names two.
  absl::StatusOr<GpuCollectives*> gpus();
  // Whether it was used.
  bool has_gpu() const { return gpus_->is_used(); }
  // Null for a job of size 1 without a coordinator.
  CoordinatorLink* link() { return link_.get(); }
  CheckpointSession& checkpoints() { return *checkpoints_; }
  CheckpointQuestion& checkpoint_question() { return *checkpoint_question_; }
  Arenas& arenas() { return *arenas_; }
  const WorkerOptions& options() const { return options_; }

  struct RankNumbers {
    int rank = 0;
    int size = 1;
    int local_rank = 0;
    int local_size = 1;
    int cross_rank = 0;
    int cross_size = 1;
    bool is_homogeneous = true;
    uint64_t epoch = 0;
  };
  const RankNumbers& rank_numbers() const { return rank_numbers_; }
  const absl::StatusOr<std::string>& gpu_transport() const { return gpu_transport_; }
  // "rank 1 (pid 4711 on host a)".
  const std::string& who() const { return who_[rank_numbers_.rank]; }

  absl::StatusOr<uint32_t> AddGroup(const std::vector<int>& ranks, const Interrupted& interrupted);
  absl::Status RemoveGroup(uint32_t group, const Interrupted& interrupted);
  uint64_t coordinator_messages() const;
  // As farandole_prove.
  std::string Prove(absl::string_view label, absl::string_view bytes) const;

 private:
  Worker(WorkerOptions options, const LastingParts& lasting);
  absl::Status Join(Lineage* lineage, const Interrupted& interrupted);
  // As CoordinatorLink::AwaitEpoch. Tells the coordinator of workers that a foreign launcher has started on this host,
  // and that have ended.
  absl::StatusOr<v1::Epoch> AwaitEpoch(const Interrupted& interrupted);
  absl::Status BecomeMember(const v1::Epoch& epoch, int64_t next_handles, const Interrupted& interrupted);
  absl::Status TakePlace(const v1::Epoch& epoch);
  // INVALID_ARGUMENT: some ranks encrypt what crosses the network, and others do not; names two ranks and both values.
  // In an elastic job only those hear it that differ from rank 0, so that the others go on.
  absl::Status AgreeOnEncryption(const v1::Epoch& epoch) const;
  void AgreeOnGpuTransport(const v1::Epoch& epoch);
  absl::Status Meet(const v1::Epoch& epoch, const Interrupted& interrupted);
  void MakeEngine(int64_t next_handles, uint32_t max_slots);
  std::string failure() const;
  void FinishOnGpu(const Interrupted& interrupted);
  // Whether a wait for the GPU is to end before it is done.
  bool GivesUp(const Interrupted& interrupted);
  // The coordinator's reason for an epoch that has ended on this worker; OK: none.
  absl::Status AwaitWord(const Interrupted& interrupted) const;
  void Forsake(const absl::Status& reason, Lineage* lineage, const Interrupted& interrupted);

  const WorkerOptions options_;
  const LastingParts lasting_;
  const std::unique_ptr<FlightMemory> flight_;
  RankNumbers rank_numbers_;
  Hosts hosts_;
  std::vector<std::string> who_;
  // The key of Prove; "" if the epoch has one host.
  std::string proving_key_;
  // By which the ranks' GPUs exchange data; or why they do not.
  absl::StatusOr<std::string> gpu_transport_;
  std::atomic<uint32_t> last_own_group_{0};
  mutable std::mutex failure_mutex_;
  // The program's first one; "": it has not failed.
  std::string failure_;
  // In the order of their making; each uses those before it.
  std::unique_ptr<CoordinatorLink> link_;
  std::unique_ptr<Connections> connections_;
  BufferPool buffers_;  // of schedules
  std::unique_ptr<GpuCollectives> gpus_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<CheckpointSession> checkpoints_;
  std::unique_ptr<CheckpointQuestion> checkpoint_question_;
  std::unique_ptr<Arenas> arenas_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_WORKER_H_
