#include "worker/engine/submissions/coordinator_answers.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {

void CoordinatorAnswers::OnSlotAssigned(absl::string_view name_text, uint32_t group, uint32_t slot) {
  std::lock_guard<std::mutex> lock(book_.mutex);
  book_.negotiation.CountAnswer();
  Name* name = book_.names.Find(group, name_text);
  if (name == nullptr || book_.names.group(group).position < 0) {
    // Rank 0 orders the slots of groups that it is not in.
    book_.news.Add(SlotAdded{slot, group});
    return;
  }
  if (name->slot == slot) return;
  book_.AssignSlot(name, slot);
  while (!name->waiting.empty()) {
    Submission* submission = name->waiting.front();
    name->waiting.pop_front();
    submission->slot = slot;
    name->posted.push_back(submission);
    book_.Send(book_.MakePost(*submission));
  }
  book_.PostJoin();
}

void CoordinatorAnswers::OnMismatch(const Disagreement& told) {
  const SubmissionBook::Lock lock(&book_);
  book_.negotiation.CountAnswer();
  const absl::Status status = absl::InvalidArgumentError(told.sentence);
  Name* name = book_.names.Find(told.group, told.name);
  if (told.disputed_slot != 0) {
    Submission* const disputed = book_.disputes.Take(told.disputed_slot, told.attempt);
    if (disputed == nullptr) return;
    const bool is_newer = name != nullptr && name->slot == told.disputed_slot &&
                          (!name->told.has_value() || name->told->attempt < told.attempt);
    if (is_newer) name->told = told;
    book_.Finish(disputed, status);
    return book_.notice.Notify();
  }
  if (name == nullptr || name->waiting.empty()) return;
  Submission* submission = name->waiting.front();
  name->waiting.pop_front();
  book_.negotiation.EndAsking(name);
  name->told = told;
  book_.Finish(submission, status);
  if (!name->waiting.empty()) book_.negotiation.Ask(name);
  book_.PostJoin();
  book_.notice.Notify();
}

void CoordinatorAnswers::OnGroupAdded(uint32_t number, std::vector<int> ranks) {
  std::lock_guard<std::mutex> lock(book_.mutex);
  book_.names.AddGroup(number, ranks, book_.ended);
  book_.news.Add(GroupAdded{number, std::move(ranks)});
}

void CoordinatorAnswers::OnGroupRemoved(uint32_t number) {
  const SubmissionBook::Lock lock(&book_);
  if (book_.names.FindGroup(number) == nullptr) return;
  const absl::Status removed = absl::InvalidArgumentError(absl::StrCat("process set ", number, " was removed"));
  book_.FailPending(number, removed);
  book_.FailDisputed(number, removed);
  book_.names.RemoveGroup(number);
  book_.notice.Notify();
  book_.news.Add(GroupRemoved{number});
}

void CoordinatorAnswers::AskAgain() {
  const SubmissionBook::Lock lock(&book_);
  for (auto& [number, group] : book_.names.groups()) {
    for (auto& [key, name] : group.names) {
      if (name->asking == Name::Asking::kAsked && !name->waiting.empty()) book_.negotiation.AskNow(name.get());
    }
    // A rank that has left will not describe it again.
    if (!group.broken.ok()) book_.FailDisputed(number, group.broken);
  }
  book_.notice.Notify();
  if (book_.join.submission() != nullptr) book_.negotiation.DescribeJoin(*book_.join.submission());
  for (const Disputes::Dispute& one : book_.disputes.all())
    book_.negotiation.DescribeDispute(*one.submission, one.slot, one.attempt);
}

std::vector<Disagreement> CoordinatorAnswers::Told() const {
  std::lock_guard<std::mutex> lock(book_.mutex);
  return book_.names.Told(book_.join.count());
}

std::vector<CoordinatorAnswers::SlotName> CoordinatorAnswers::Slots() const {
  std::lock_guard<std::mutex> lock(book_.mutex);
  return book_.names.Slots();
}

std::map<uint32_t, std::vector<int>> CoordinatorAnswers::Groups() const {
  std::lock_guard<std::mutex> lock(book_.mutex);
  return book_.names.Ranks();
}

}  // namespace farandole
