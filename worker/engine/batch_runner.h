#ifndef FARANDOLE_WORKER_ENGINE_BATCH_RUNNER_H_
#define FARANDOLE_WORKER_ENGINE_BATCH_RUNNER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/core/collective.h"
#include "worker/device/gpu_batch.h"
#include "worker/engine/submissions/submission_table.h"
#include "worker/measure/rank_meter.h"

namespace farandole {

// Starts a collective on this rank, by the transport's own way or by a schedule. Called with the engine's role.
using CollectiveStarter = std::function<absl::StatusOr<std::unique_ptr<Operation>>(const Collective&)>;

// Runs the batches of the order log on one rank, one at a time: takes an entry's submissions, moves their tensors by
// one collective (an alltoall by two), and completes them. Owned by Engine and part of its role; methods that other
// threads may call say so.
class BatchRunner {
 public:
  // `who`: as EngineOptions. `table` and `meter` outlive it.
  BatchRunner(int rank, std::string who, CollectiveStarter start, SubmissionTable* table, RankMeter* meter);

  // Any thread: whether a batch has begun and has not ended.
  bool is_running() const { return is_running_.load(); }
  // Begins the batch of a kBatch entry, and ends it where no bytes are to be moved. Does nothing on a rank outside of
  // the entry's group. After an error the batch runs until Fail.
  absl::Status Begin(const Entry& entry);
  // Does what the running batch of `entry` can do now, and ends it when all is done. False: nothing could be done.
  absl::StatusOr<bool> Advance(const Entry& entry);
  // Ends the running batch, if there is one, with `status`.
  void Fail(const absl::Status& status);

  // Any thread. Batches that have ended, the bytes of their submissions, and those reduced in place in arenas.
  uint64_t batches() const { return batches_.load(); }
  uint64_t bytes() const { return bytes_.load(); }
  uint64_t arena_bytes() const { return arena_bytes_.load(); }

 private:
  absl::Status Start(const Entry& entry);
  // Whether this rank has joined, and so has no submissions for the batch.
  absl::StatusOr<bool> JoinsIn(const Entry& entry) const;
  absl::Status AddTensors(const Entry& entry);
  void AddByPosition(int64_t element_bytes);
  absl::Status AddGathered(const Entry& entry, Submission* submission);
  // Memory for the submission's `result_bytes`, where its tensors are.
  absl::StatusOr<char*> AllocateResult(Submission* submission);
  absl::Status PrepareGpuBatch(const Entry& entry);
  absl::Status StartOperation();
  // Alltoall: first the ranks tell each other how many rows they get, then the rows are moved.
  absl::Status StartRowExchange();
  absl::Status CheckReceivedRows(const Entry& entry) const;
  absl::Status StartRows(const Entry& entry);
  // Gather, scatter: an alltoall in which only the root receives, or sends. The order has the counts already.
  absl::Status StartRowsOfRoot(const Entry& entry);
  absl::Status MoveRows(const Entry& entry);
  void Finish(const absl::Status& status);

  const int rank_;
  const std::string who_;
  const CollectiveStarter start_;
  SubmissionTable& table_;
  RankMeter& meter_;

  // The running batch. The spans of `collective_` point into the members below.
  Collective collective_;
  std::vector<int> ranks_;
  std::vector<int64_t> counts_;
  // Alltoall: the ranks are telling each other how many rows they get.
  bool exchanges_rows_ = false;
  std::vector<int64_t> sent_counts_;
  std::vector<int64_t> sent_rows_;
  std::vector<int64_t> received_rows_;
  absl::InlinedVector<Fragment, 2> fragments_;
  // In the order of the entry's items.
  absl::InlinedVector<Submission*, 2> submissions_;
  // The batch of tensors in a GPU.
  GpuBatch gpu_batch_;
  std::unique_ptr<Operation> operation_;
  int64_t started_ns_ = 0;

  std::atomic<bool> is_running_{false};
  std::atomic<uint64_t> batches_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> arena_bytes_{0};
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_BATCH_RUNNER_H_
