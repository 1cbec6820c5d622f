#ifndef FARANDOLE_SERVER_JOB_NAMES_OWED_ANSWERS_H_
#define FARANDOLE_SERVER_JOB_NAMES_OWED_ANSWERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "farandole/v1/worker.pb.h"
#include "server/bytes/byte_account.h"
#include "server/job/rules/actions.h"

namespace farandole {

// Answers that a rank may not have received: they were decided while it had no stream, or were sent on a stream that
// broke. A rank that reconnects repeats its unanswered messages. The coordinator answers such a message with the stored
// answer and does not treat it as a new one. Owned by its RunningEpoch.
class OwedAnswers {
 public:
  // Keeps the newest mismatches of a rank: so many, and fewer where there is no room for them.
  static constexpr size_t kMostMismatches = 4096;
  // Of one name: a rank has it pending once at a time.
  static constexpr size_t kMostOfName = 16;

  // `bytes`, which may be null, is charged for all that is kept.
  explicit OwedAnswers(std::shared_ptr<ByteAccount> bytes);
  OwedAnswers(const OwedAnswers&) = delete;
  OwedAnswers& operator=(const OwedAnswers&) = delete;

  // Keeps a Mismatch that was decided while the rank had no stream.
  void Add(uint32_t rank, const SharedMessage& mismatch);
  // Keeps these GroupAssigned, which have no error. RESOURCE_EXHAUSTED: there is no room for them.
  absl::Status AddGroups(uint32_t rank, const std::vector<SharedMessage>& groups);
  // Notes a message sent on the rank's stream: a Mismatch, which the rank may not get, or the slot of a name, whose
  // mismatches are over with it.
  void Sent(uint32_t rank, const SharedMessage& message);
  // The rank has a new stream: messages sent on the last one may not have come. The groups that the
  // rank lacks are determined anew.
  void Renew(uint32_t rank);
  // The rank's message has crossed its answer, which was sent on the present stream.
  bool HasCrossed(uint32_t rank, const v1::WorkerMessage& message) const;
  // The answer owed to `rank` for `message`, which is then owed no longer; null: none.
  SharedMessage Take(uint32_t rank, const v1::WorkerMessage& message);

 private:
  // Of an answer that is kept, beside its message.
  static constexpr int64_t kPlaceBytes = 256;

  struct Kept {
    SharedMessage message;
    SharedCharge charge;
    // On the present stream; otherwise it is owed.
    bool was_sent = false;
  };
  // In the order in which they came, and by the question that they answer: its group and name, or the group's ranks.
  struct Sequence {
    absl::btree_map<uint64_t, Kept> kept;
    absl::btree_set<std::pair<size_t, uint64_t>> by_question;
  };
  struct OfRank {
    Sequence mismatches;
    Sequence groups;
  };

  void KeepMismatch(uint32_t rank, const SharedMessage& message, bool was_sent);
  // Its charge, which all that keep it share; null: there is no room.
  SharedCharge ChargeFor(const SharedMessage& message);
  void Insert(Sequence* answers, Kept kept);
  // Erases the oldest of the question if it has as many as may be.
  void MakePlace(Sequence* answers, size_t question);
  void Erase(Sequence* answers, absl::btree_map<uint64_t, Kept>::iterator kept);
  void EraseAll(Sequence* answers);
  // The first that answers the message, and was sent or not; end(): none.
  static absl::btree_map<uint64_t, Kept>::const_iterator Find(const Sequence& answers, const v1::WorkerMessage& message,
                                                              bool was_sent);

  // Shared by all that is charged to the job.
  const std::shared_ptr<ByteAccount> bytes_;
  ByteCharge places_charge_;
  absl::flat_hash_map<uint32_t, OfRank> of_rank_;
  uint64_t last_ = 0;
  // A mismatch comes for all its ranks, one after the other.
  SharedMessage last_message_;
  SharedCharge last_charge_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_NAMES_OWED_ANSWERS_H_
