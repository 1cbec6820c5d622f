#ifndef FARANDOLE_SERVER_JOB_OWED_ANSWERS_H_
#define FARANDOLE_SERVER_JOB_OWED_ANSWERS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "farandole/v1/worker.pb.h"

namespace farandole {

// Answers about groups that were decided while a rank had no stream. A rank that comes back sends again what was not
// answered; such a request gets the answer that was decided, and is not counted as a new one. Bounded by what a rank
// may have unanswered. Owned by its RunningEpoch.
class OwedAnswers {
 public:
  // Keeps a GroupAssigned; whatever else is sent needs no second delivery.
  void Add(uint32_t rank, const v1::CoordinatorMessage& message);
  // The answer owed to `rank` for `message`, which is then owed no longer.
  std::optional<v1::CoordinatorMessage> Take(uint32_t rank, const v1::WorkerMessage& message);
  void Clear() { answers_.clear(); }

 private:
  absl::flat_hash_map<uint32_t, std::vector<v1::CoordinatorMessage>> answers_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_OWED_ANSWERS_H_
