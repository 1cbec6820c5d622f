#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_COORDINATOR_ANSWERS_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_COORDINATOR_ANSWERS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/engine/submissions/book/submission_book.h"

namespace farandole {

// Carries out on a rank's submissions what the coordinator answers, for the control thread. Thread-safe.
class CoordinatorAnswers {
 public:
  using SlotName = NameTable::SlotName;

  // `book` outlives it.
  explicit CoordinatorAnswers(SubmissionBook* book) : book_(*book) {}
  CoordinatorAnswers(const CoordinatorAnswers&) = delete;
  CoordinatorAnswers& operator=(const CoordinatorAnswers&) = delete;

  void OnSlotAssigned(absl::string_view name, uint32_t group, uint32_t slot);
  void OnMismatch(const Disagreement& told);
  void OnGroupAdded(uint32_t group, std::vector<int> ranks);
  void OnGroupRemoved(uint32_t group);
  // After a reattachment: states unanswered submissions again.
  void AskAgain();

  // For the hello of a reattachment: the last statement about each name without a slot, and about each slot.
  std::vector<Disagreement> Told() const;
  std::vector<SlotName> Slots() const;
  std::map<uint32_t, std::vector<int>> Groups() const;

 private:
  using Name = NameTable::Name;

  SubmissionBook& book_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_COORDINATOR_ANSWERS_H_
