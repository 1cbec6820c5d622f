#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_LOG_OUTCOMES_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_LOG_OUTCOMES_H_

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "worker/engine/submissions/book/submission_book.h"

namespace farandole {

// Carries out on a rank's submissions what all ranks agree about: the entries of the order log, and the rounds of the
// rendezvous. For the thread that has the engine's role. Thread-safe.
class LogOutcomes {
 public:
  // `book` outlives it.
  explicit LogOutcomes(SubmissionBook* book) : book_(*book) {}
  LogOutcomes(const LogOutcomes&) = delete;
  LogOutcomes& operator=(const LogOutcomes&) = delete;

  // The round is agreed: computes the result and completes the submission. If that is `*driven`, for which the caller
  // waits and no other thread, releases it too and sets `*driven` to null. Returns its bytes and sets `*slot`; -1: the
  // submission has ended meanwhile.
  // Here and below `now_ns` is for the flight recorder, which takes a time that has been read lately.
  int64_t CompleteOffered(uint32_t* slot, int64_t now_ns, Submission** driven);
  // The round is declined: posts the submission to the order log instead.
  void PostOffered();
  // Declines if other ranks wait in the rendezvous while this rank waits for another submission of theirs. Returns
  // whether it has declined.
  bool DeclineOffers();

  // The submissions that a batch's items stand for, now running. A null: this rank has none for the item.
  void Take(const Entry& entry, int64_t now_ns, absl::InlinedVector<Submission*, 2>* taken);
  // `began_ns`: when the batch began.
  void Complete(absl::Span<Submission* const> submissions, const absl::Status& status, int64_t began_ns,
                int64_t now_ns);
  // Completes the submission of a kInline entry with the entry's payload. Its bytes; -1: this rank has none for it.
  int64_t CompleteInline(const Entry& entry, int64_t now_ns);
  void OnDispute(uint32_t slot, uint32_t attempt, uint32_t disputants);
  // The broadcast of a kRootHasJoined entry ends.
  void OnRootHasJoined(const Entry& entry);
  // All ranks have joined; `rank` was the last.
  void OnAllJoined(int rank);
  void OnRetired(uint32_t slot);
  // `rank` has left: groups with it end, except for disputes, which it has described before and which are answered.
  void OnLeft(int rank, const std::string& who);

 private:
  using Name = NameTable::Name;

  SubmissionBook& book_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_LOG_OUTCOMES_H_
