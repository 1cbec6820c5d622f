#ifndef FARANDOLE_SERVER_JOB_MEMBERS_LAUNCH_TOKENS_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_LAUNCH_TOKENS_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "farandole/v1/types.pb.h"

namespace farandole {

// The tokens of launches that take part in a run which another token has launched, and the workers that they have
// started: the launcher of each reports the ends of its own workers. `run` is the launch of the run's record. In memory
// only: after a restart of the coordinator, workers show their tokens again when they come back. Owned by its Job.
class LaunchTokens {
 public:
  // Of launches that have no workers yet. Beyond it a launch is not known before its first worker has joined.
  static constexpr size_t kMostLaunches = 256;

  // Another run begins; launches that take part in it already stay.
  void BeginRun() { by_worker_.clear(); }
  // A launch by this token takes part in the run of the launch with this nonce.
  void TakePart(const std::string& nonce, const std::string& token_id);
  // A worker was started with this token. `present` lists those that may still be reported; it is called when there are
  // more here than there were then, twice over.
  void NoteWorker(const v1::Launch& run, const std::string& incarnation, const std::string& token_id,
                  const std::function<absl::flat_hash_set<std::string>()>& present);

  // Whether the token may speak for the whole run; `only_of_token` as of CheckOwnLaunch. A run that an earlier version
  // has recorded without a token's id is any launcher's.
  static bool HasLaunchedRun(const v1::Launch& run, const std::string& only_of_token);
  // Whether it may speak for this worker.
  bool HasLaunched(const v1::Launch& run, const std::string& only_of_token, const std::string& incarnation) const;
  // PERMISSION_DENIED: no launch of this token takes part in the run (the run's token is named, too).
  absl::Status CheckTakesPart(const std::string& job, const v1::Launch& run, const std::string& only_of_token) const;

 private:
  static constexpr size_t kLeastWorkersKept = 64;

  // The nonce of the run that launches_ take part in.
  std::string nonce_;
  absl::flat_hash_set<std::string> launches_;
  // By incarnation; those that the run's own token has started are not here.
  absl::flat_hash_map<std::string, std::string> by_worker_;
  size_t most_workers_ = kLeastWorkersKept;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_MEMBERS_LAUNCH_TOKENS_H_
