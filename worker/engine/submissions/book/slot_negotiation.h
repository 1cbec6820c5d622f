#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_SLOT_NEGOTIATION_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_SLOT_NEGOTIATION_H_

#include <cstdint>

#include "worker/engine/submissions/book/name_table.h"
#include "worker/engine/submissions/book/own_join.h"
#include "worker/engine/submissions/book/submission.h"

namespace farandole {

// The way to the coordinator's negotiation. Calls do not block and may come from any thread, some while the table's
// lock is held, so they must not call back. After a lost connection, CoordinatorAnswers::AskAgain states the unanswered
// ones again.
class ControlLink {
 public:
  virtual ~ControlLink() = default;
  // States the submission: because its name is new, or (disputed_slot != 0) because signatures differ. `retired_slot`:
  // a slot of the name that is no longer in use, or 0.
  // `ordinal`: as Ready.ordinal.
  virtual void Negotiate(const Submission& submission, uint32_t retired_slot, uint32_t disputed_slot, uint32_t attempt,
                         uint32_t ordinal) = 0;
  // Rank 0: `slot` was retired.
  virtual void ReportRetired(uint32_t slot) = 0;
};

// Asks the coordinator for the slots of names, and tells it about disputes and joins. Owned by SubmissionBook, whose
// lock guards it.
class SlotNegotiation {
 public:
  // `link` is null for a rank alone, which asks nobody. All outlive it.
  SlotNegotiation(ControlLink* link, NameTable* names, const OwnJoin* join) : link_(link), names_(names), join_(join) {}

  bool is_alone() const { return link_ == nullptr; }
  // Asks for the name's slot now, or in its turn.
  void Ask(NameTable::Name* name) {
    if (names_->BeginAsking(name)) AskNow(name);
  }
  void AskNow(NameTable::Name* name) {
    Describe(*name->waiting.front(), name->retired_slot, 0, 0, name->ordinal(join_->count()));
  }
  // The name's question is answered, or over; the next name has its turn.
  void EndAsking(NameTable::Name* name) {
    if (NameTable::Name* const next = names_->EndAsking(name); next != nullptr) AskNow(next);
  }
  void DescribeDispute(const Submission& submission, uint32_t slot, uint32_t attempt) {
    Describe(submission, 0, slot, attempt, 0);
  }
  void DescribeJoin(const Submission& submission) { Describe(submission, 0, 0, 0, 0); }
  void ReportRetired(uint32_t slot) {
    if (link_ == nullptr) return;
    ++messages_;
    link_->ReportRetired(slot);
  }
  void CountAnswer() { ++messages_; }
  // Sent and received.
  uint64_t messages() const { return messages_; }

 private:
  void Describe(const Submission& submission, uint32_t retired_slot, uint32_t slot, uint32_t attempt,
                uint32_t ordinal) {
    if (link_ == nullptr) return;
    ++messages_;
    link_->Negotiate(submission, retired_slot, slot, attempt, ordinal);
  }

  ControlLink* const link_;
  NameTable* const names_;
  const OwnJoin* const join_;
  uint64_t messages_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_SLOT_NEGOTIATION_H_
