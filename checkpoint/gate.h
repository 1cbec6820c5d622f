#ifndef FARANDOLE_CHECKPOINT_GATE_H_
#define FARANDOLE_CHECKPOINT_GATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "farandole/v1/admin.pb.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/store.pb.h"
#include "farandole/v1/worker.pb.h"

namespace farandole {

// The place of a checkpoint in the order of commits: Checkpoint.committed_unix_ms and its token.
struct CommitPlace {
  int64_t committed_unix_ms = 0;
  uint64_t token = 0;
};

// Decides who may write a job's checkpoints, and keeps the catalogue of those that exist. A writer is given a fencing
// token that is greater than every earlier one of the job; its file becomes a checkpoint only while no later token was
// given for the same name. Pure: no clock, disk, network or thread. Owned by the job's core.
//
// A decision that must be durable before it is answered lists its rows in `writes`; row keys are those of store.proto.
class CheckpointGate {
 public:
  // Most names that are being written at a time, most checkpoints in a catalogue, and most bytes of these in memory:
  // enough for as many whose paths have up to some 400 bytes.
  static constexpr size_t kMostGrants = 256;
  static constexpr size_t kMostCheckpoints = 10000;
  static constexpr size_t kMostBytes = 8 << 20;
  // The most bytes that one checkpoint may have.
  static constexpr size_t kMostBytesOfOne = 8 << 10;

  struct Writes {
    std::vector<std::string> deletes;
    std::vector<std::pair<std::string, std::string>> puts;
  };
  // The job's present epoch, as the gate needs it.
  struct Present {
    // The last epoch that was formed; 0: none yet.
    uint64_t epoch = 0;
    // Whether it still runs, and rank 0 has not left it.
    bool is_running = false;
    // Its rank 0.
    std::string writer;
  };

  CheckpointGate(absl::string_view tenant, absl::string_view job);

  // The name of a checkpoint that has none is "checkpoint".
  static std::string NameOrDefault(const std::string& name);

  // Takes in a row of an earlier life, whose key starts with checkpoint/ or grant/.
  //   DATA_LOSS  it cannot be parsed (named)
  absl::Status Load(absl::string_view key, const std::string& value);
  // No token up to this one is given again.
  void SkipTokens(uint64_t last_token) { last_token_ = std::max(last_token_, last_token); }
  uint64_t last_token() const { return last_token_; }
  // The bytes of the catalogue in memory.
  size_t bytes() const { return bytes_; }

  // Whether a checkpoint that this asks for makes the catalogue take more memory: not one that was granted before, or
  // replaces another, and not where the catalogue is full.
  bool WouldGrow(const v1::BeginCheckpointRequest& request) const;
  // Grants the writing of a checkpoint, with a token above the greatest that a file on disk has; the same request (by
  // idempotency key) is given the same token.
  //   INVALID_ARGUMENT    a field is out of bounds
  //   ABORTED             no epoch runs, or not the one that the request names
  //   PERMISSION_DENIED   the asking worker is not rank 0 (both named)
  //   ALREADY_EXISTS      the catalogue has this name and step (its path is named), and the request does not replace it
  //   RESOURCE_EXHAUSTED  kMostGrants is reached
  absl::StatusOr<v1::BeginCheckpointResponse> Begin(const v1::BeginCheckpointRequest& request, const Present& present,
                                                    Writes* writes);
  // Enters a written file in the catalogue, which forgets its oldest beyond kMostCheckpoints and kMostBytes; the same
  // token again is given the same answer. With `give_up` it gives up a token that is not committed, for good; the
  // answer has no checkpoint then.
  //   INVALID_ARGUMENT   a field is out of bounds or differs from what was granted, or the file's name lacks ".tTOKEN."
  //   NOT_FOUND          the token was never granted
  //   ABORTED            a later token was granted for the name, or a later epoch has been formed (both named)
  //   PERMISSION_DENIED  the token was granted to another worker
  absl::StatusOr<v1::CommitCheckpointResponse> Commit(const v1::CommitCheckpointRequest& request,
                                                      const Present& present, absl::Time now, Writes* writes);
  //   INVALID_ARGUMENT  a field is out of bounds
  //   NOT_FOUND         the catalogue has no such checkpoint
  absl::StatusOr<v1::FindCheckpointResponse> Find(const v1::FindCheckpointRequest& request) const;
  // Whether a checkpoint with a token above this one is being written in the epoch, as far as is known here.
  bool IsWriting(uint64_t token, uint64_t epoch) const;
  // At most `most` of those that were committed behind `after`, oldest first.
  v1::ListCheckpointsResponse List(CommitPlace after = {}, size_t most = kMostCheckpoints) const;
  // At most `most` behind the newest `skipped`, newest first.
  v1::ListCheckpointsResponse ListNewest(size_t skipped, size_t most) const;
  // Takes a checkpoint out of the catalogue. Its file stays; the name and step may be committed anew.
  //   INVALID_ARGUMENT  a field is out of bounds
  //   NOT_FOUND         the catalogue has no such checkpoint
  absl::StatusOr<v1::DeleteCheckpointResponse> Delete(const std::string& name, int64_t step, Writes* writes);

 private:
  using NameAndStep = std::pair<std::string, int64_t>;

  absl::Status CheckGrant(const v1::BeginCheckpointRequest& request, const std::string& name,
                          const Present& present) const;
  absl::StatusOr<v1::CommitCheckpointResponse> GiveUp(const v1::CommitCheckpointRequest& request,
                                                      const std::string& name, Writes* writes);
  absl::Status CheckWasGranted(uint64_t token) const;
  // `does`: the action of the worker of this incarnation with the token.
  static absl::Status CheckOwner(const v1::GrantRecord& grant, const std::string& incarnation, absl::string_view does);
  absl::Status CheckCommit(const v1::CommitCheckpointRequest& request, const std::string& name,
                           const Present& present) const;
  // Makes room by forgetting a grant of an earlier epoch, which cannot be committed any more; false: there is none.
  bool DropFencedGrant(const Present& present, Writes* writes);
  // Takes it into the catalogue, in the place of one with this name and step.
  void Enter(const NameAndStep& id, v1::Checkpoint checkpoint);
  void Leave(const NameAndStep& id);
  void Forget(const NameAndStep& id, Writes* writes);
  // Whether the catalogue has no other checkpoint of this name.
  bool IsOnlyOne(const NameAndStep& id) const;
  // Forgets one of the checkpoints that were committed first: of a name that has others, if there is one. Its file
  // stays.
  void ForgetOldest(Writes* writes);
  std::string GrantKey(uint64_t token) const;
  std::string CheckpointKey(const std::string& name, int64_t step) const;

  // "TENANT/JOB/".
  std::string prefix_;
  uint64_t last_token_ = 0;
  // The latest grant of each name that has not become a checkpoint.
  absl::btree_map<std::string, v1::GrantRecord> grants_;
  absl::btree_map<NameAndStep, v1::Checkpoint> catalogue_;
  size_t bytes_ = 0;
  // The time of the last commit in this life, deleted or not: listing in pages goes by it.
  int64_t last_commit_unix_ms_ = 0;
  // The catalogue in the order of commits: time of the commit (never decreasing), then token.
  absl::btree_map<std::pair<int64_t, uint64_t>, NameAndStep> by_commit_;
};

}  // namespace farandole

#endif  // FARANDOLE_CHECKPOINT_GATE_H_
