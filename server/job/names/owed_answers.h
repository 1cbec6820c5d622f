#ifndef FARANDOLE_SERVER_JOB_NAMES_OWED_ANSWERS_H_
#define FARANDOLE_SERVER_JOB_NAMES_OWED_ANSWERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "farandole/v1/worker.pb.h"

namespace farandole {

// Answers that a rank may not have received: they were decided while it had no stream, or were sent on a stream that
// broke. A rank that reconnects repeats its unanswered messages. The coordinator answers such a message with the stored
// answer and does not treat it as a new one. Bounded by the unanswered messages of a rank, and by kMostSent. Owned by
// its RunningEpoch.
class OwedAnswers {
 public:
  // Keeps the newest messages sent to a rank on its present stream.
  static constexpr size_t kMostSent = 4096;

  // Keeps a Mismatch or a GroupAssigned without an error; other messages need no second delivery.
  void Add(uint32_t rank, const std::shared_ptr<const v1::CoordinatorMessage>& message);
  // Notes a message sent on the rank's stream: a Mismatch, which the rank may not get, or the slot of a name, whose
  // mismatches are over with it.
  void Sent(uint32_t rank, const std::shared_ptr<const v1::CoordinatorMessage>& message);
  // The rank has a new stream: messages sent on the last one may not have come. The groups that the
  // rank lacks are determined anew.
  void Renew(uint32_t rank);
  // The rank's message has crossed its answer, which was sent on the present stream.
  bool HasCrossed(uint32_t rank, const v1::WorkerMessage& message) const;
  // The answer owed to `rank` for `message`, which is then owed no longer; null: none.
  std::shared_ptr<const v1::CoordinatorMessage> Take(uint32_t rank, const v1::WorkerMessage& message);
  void Clear() { answers_.clear(); }

 private:
  using SharedAnswer = std::shared_ptr<const v1::CoordinatorMessage>;

  absl::flat_hash_map<uint32_t, std::vector<SharedAnswer>> answers_;
  absl::flat_hash_map<uint32_t, std::deque<SharedAnswer>> sent_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_NAMES_OWED_ANSWERS_H_
