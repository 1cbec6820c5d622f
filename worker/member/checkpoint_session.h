#ifndef FARANDOLE_WORKER_MEMBER_CHECKPOINT_SESSION_H_
#define FARANDOLE_WORKER_MEMBER_CHECKPOINT_SESSION_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "checkpoint/writer.h"
#include "worker/member/coordinator_link.h"

namespace farandole {

// Writes this worker's checkpoints, one at a time, through the coordinator's gate. Without a coordinator the manifests
// in the directory are the catalogue, and their greatest token is the last one granted. Thread-safe; calls block on
// disk and network.
class CheckpointSession {
 public:
  // `link` may be null; else it outlives the session, as `rank` and `epoch` are those of its epoch.
  CheckpointSession(CoordinatorLink* link, std::string job, int rank, uint64_t epoch)
      : link_(link), job_(std::move(job)), rank_(rank), epoch_(epoch) {}

  // A checkpoint that is being written.
  struct Begun {
    // Unique, also among the checkpoints of other epochs and jobs of the process; not 0.
    int64_t number = 0;
    // The file to write.
    std::string path;
  };
  // Errors and results as farandole_checkpoint_begin, _commit, _fail, _abandon and _find say; `number` is Begun's.
  absl::StatusOr<Begun> Begin(absl::string_view directory, absl::string_view name, int64_t step,
                              absl::string_view extension, bool replace);
  absl::StatusOr<std::string> Commit(int64_t number);
  absl::Status Fail(int64_t number, absl::string_view cause);
  void Abandon(int64_t number);
  // Waits while another thread commits: its file would be in no catalogue once the coordinator hears that this worker
  // has left. ABORTED: `interrupted`, which is asked every 100 ms.
  absl::Status AwaitCommit(const std::function<bool()>& interrupted);
  absl::StatusOr<v1::Checkpoint> Find(const std::string& directory, absl::string_view name, int64_t step);

 private:
  // The right to write, with a token above `greatest`.
  absl::StatusOr<v1::BeginCheckpointResponse> Grant(const std::string& directory, absl::string_view name, int64_t step,
                                                    bool replace, uint64_t greatest);
  // Asks the catalogue after an attempt to commit has failed with `failure`: it may have been carried out all the same.
  // The file stays unless it says that it was not, and never will be.
  absl::StatusOr<std::string> Settle(v1::CommitCheckpointRequest request, const absl::Status& failure,
                                     CheckpointWriter* writer);

  // Ends the writing of the checkpoint of this number. ABORTED: it is not being written.
  absl::StatusOr<CheckpointWriter> Take(int64_t number);
  // Commit, as the only call at its time.
  absl::StatusOr<std::string> CommitAlone(int64_t number);
  // A checkpoint that people have asked for could not be written.
  absl::Status TellFailure(const absl::Status& failure);

  CoordinatorLink* const link_;
  const std::string job_;
  const int rank_;
  const uint64_t epoch_;
  std::mutex mutex_;
  std::optional<CheckpointWriter> writer_;
  // Begun::number of writer_.
  int64_t number_ = 0;
  // Without a coordinator: the job's checkpoints that writer_ was granted to replace. Another writer may have made
  // others since.
  std::vector<std::string> replaced_;
  // Calls of Commit that have not returned. Commit holds mutex_ while it waits for disk and network.
  std::mutex commits_mutex_;
  std::condition_variable commit_ended_;
  int commits_ = 0;
  // CheckpointWish::wanted when writer_ began; 0 without a coordinator.
  uint64_t wanted_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_CHECKPOINT_SESSION_H_
