#include "worker/engine/submissions/log_outcomes.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/engine/submissions/book/submission_post.h"

namespace farandole {
namespace {

// Counts a collective among what its name has moved: one of a batch of `batch_bytes` that took `ns`.
void Count(const Submission& submission, int64_t batch_bytes, size_t batch_size, int64_t ns,
           FlightRecorder::Moved* moved) {
  const double share = batch_bytes > 0 ? static_cast<double>(submission.bytes()) / static_cast<double>(batch_bytes)
                                       : 1 / static_cast<double>(batch_size);
  ++moved->count;
  moved->bytes += static_cast<uint64_t>(submission.bytes());
  moved->moving_ns += static_cast<int64_t>(static_cast<double>(ns) * share);
  moved->op = static_cast<uint8_t>(submission.op);
  moved->is_on_gpu = submission.gpu != nullptr;
}

}  // namespace

bool LogOutcomes::DeclineOffers() {
  std::lock_guard<std::mutex> lock(book_.mutex);
  return book_.offer.Decline();
}

int64_t LogOutcomes::CompleteOffered(uint32_t* slot, int64_t now_ns, Submission** driven) {
  const SubmissionBook::Lock lock(&book_);
  if (book_.offer.submission() == nullptr) return -1;
  Submission* submission = book_.offer.CloseAgreed();
  const int64_t bytes = submission->bytes();
  *slot = submission->slot;
  // Another thread may have released its handle, or submitted the rest of a grouped call after it.
  const bool is_only_awaited = submission->waiters == 1 && !submission->released && book_.held.empty();
  if (submission == *driven && is_only_awaited) {
    *driven = nullptr;
    book_.FinishMet(submission, book_.offer.name(), now_ns);
  } else {
    book_.Finish(submission, book_.offer.name(), absl::OkStatus(), now_ns);
  }
  book_.PostJoin();
  book_.notice.Notify();
  return bytes;
}

void LogOutcomes::PostOffered() {
  const SubmissionBook::Lock lock(&book_);
  if (book_.offer.submission() == nullptr) return;
  Submission* submission = book_.offer.CloseDeclined();
  Name* name = book_.offer.name();
  submission->slot = name->slot;
  // Before all that was submitted since.
  if (const absl::Status& broken = book_.names.group(0).broken; !broken.ok()) {
    book_.Finish(submission, name, broken, book_.clock());
  } else if (name->slot == 0) {
    name->waiting.push_front(submission);
    if (name->asking == Name::Asking::kNot) book_.negotiation.Ask(name);
  } else {
    name->posted.push_front(submission);
    book_.posts.SendFirst(book_.MakePost(*submission), /*is_offering=*/false);
  }
  book_.PostJoin();
  book_.notice.Notify();
}

void LogOutcomes::Take(const Entry& entry, int64_t now_ns, absl::InlinedVector<Submission*, 2>* taken) {
  std::lock_guard<std::mutex> lock(book_.mutex);
  taken->clear();
  const int64_t recorded_ns = IsOn(book_.timeline) ? book_.clock() : 0;
  if (recorded_ns != 0) book_.timeline->MarkCycle(recorded_ns);
  for (const Entry::Item& item : entry.items) {
    Submission* submission = book_.names.TakePosted(item.slot);
    if (submission != nullptr) {
      submission->running = true;
      submission->started_ns = recorded_ns;
      FlightRecorder::Start(submission->flight, entry.sequence, now_ns);
      book_.EnterHeld(*submission, absl::OkStatus());  // all ranks' signatures were equal
    }
    taken->push_back(submission);
  }
}

void LogOutcomes::Complete(absl::Span<Submission* const> submissions, const absl::Status& status, int64_t began_ns,
                           int64_t now_ns) {
  const SubmissionBook::Lock lock(&book_);
  int64_t batch_bytes = 0;
  for (const Submission* submission : submissions) batch_bytes += submission == nullptr ? 0 : submission->bytes();
  for (Submission* submission : submissions) {
    if (submission == nullptr) continue;
    Name* const name = book_.names.Find(submission->group, submission->name);
    if (name != nullptr && status.ok())
      Count(*submission, batch_bytes, submissions.size(), now_ns - began_ns, &name->moved);
    book_.Finish(submission, name, status, now_ns);
  }
  book_.notice.Notify();
}

int64_t LogOutcomes::CompleteInline(const Entry& entry, int64_t now_ns) {
  const SubmissionBook::Lock lock(&book_);
  Submission* submission = book_.names.TakePosted(entry.slot);
  if (submission == nullptr) return -1;
  const int64_t bytes = submission->bytes();
  ScatterResult(*submission, entry.payload);
  FlightRecorder::Start(submission->flight, entry.sequence, now_ns);
  book_.Finish(submission, book_.names.InSlot(entry.slot), absl::OkStatus(), now_ns);
  book_.notice.Notify();
  return bytes;
}

void LogOutcomes::OnDispute(uint32_t slot, uint32_t attempt, uint32_t disputants) {
  const SubmissionBook::Lock lock(&book_);
  Submission* submission = book_.names.TakePosted(slot);
  if (submission == nullptr) return;
  submission->disputants = disputants;
  book_.disputes.Add(slot, attempt, submission);
  book_.negotiation.DescribeDispute(*submission, slot, attempt);
}

void LogOutcomes::OnRootHasJoined(const Entry& entry) {
  const SubmissionBook::Lock lock(&book_);
  Submission* submission = book_.names.TakePosted(entry.slot);
  if (submission == nullptr) return;
  const int root = book_.names.group(submission->group).ranks[entry.root];
  book_.Finish(submission,
               absl::InvalidArgumentError(absl::StrCat(
                   submission->name, ": rank ", root, " is the root of the ", TraitsOf(submission->op).name,
                   ", but has joined, so that it has no data for rank ", book_.rank, " and takes none from it")));
  book_.notice.Notify();
}

void LogOutcomes::OnAllJoined(int rank) {
  const SubmissionBook::Lock lock(&book_);
  Submission* const submission = book_.join.OnAllJoined();
  if (submission == nullptr) return;
  book_.names.Find(0, submission->name)->posted.clear();
  void* output = submission->fragments[0].output;
  const int32_t last = rank;
  if (output != nullptr) std::memcpy(output, &last, sizeof(last));
  book_.Finish(submission, absl::OkStatus());
  book_.notice.Notify();
}

void LogOutcomes::OnRetired(uint32_t slot) {
  const SubmissionBook::Lock lock(&book_);
  if (book_.rank == 0) book_.negotiation.ReportRetired(slot);
  book_.ForgetMet();
  Name* const name = book_.names.Retire(slot);
  if (name == nullptr) return;
  // Posted when rank 0 had already retired the slot: asked for anew.
  std::deque<Submission*> posted = std::exchange(name->posted, {});
  for (Submission* submission : posted) {
    submission->slot = 0;
    book_.join.CountReturned();
    book_.Enter(submission, name);
  }
  book_.PostJoin();
}

void LogOutcomes::OnLeft(int rank, const std::string& who) {
  const SubmissionBook::Lock lock(&book_);
  if (rank != book_.rank) book_.left.push_back(rank);
  book_.offer.CloseRendezvous();
  for (auto& [number, group] : book_.names.groups()) {
    if (!std::binary_search(group.ranks.begin(), group.ranks.end(), rank)) continue;
    if (group.broken.ok()) {
      group.broken = absl::AbortedError(
          rank == book_.rank ? absl::StrCat("this worker (", who, ") has left the job")
                             : absl::StrCat(who, " has left the job; nothing that needs it can complete any more"));
      book_.FailPending(number, group.broken);
    }
    if (rank == book_.rank) book_.FailDisputed(number, group.broken);
  }
  // Others' offers are still to be answered by all, or declined, so that it ends everywhere alike.
  if (rank == book_.rank) book_.DropOffer(book_.names.group(0).broken);
  book_.notice.Notify();
}

}  // namespace farandole
