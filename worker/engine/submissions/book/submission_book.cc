#include "worker/engine/submissions/book/submission_book.h"

#include <algorithm>
#include <utility>

#include "worker/engine/submissions/book/submission_post.h"

namespace farandole {
namespace {

FlightState StateOf(const absl::Status& status) {
  if (status.ok()) return FlightState::kFinished;
  return absl::IsInvalidArgument(status) ? FlightState::kFailed : FlightState::kEnded;
}

}  // namespace

SubmissionBook::SubmissionBook(const SubmissionOptions& options)
    : rank(options.rank),
      channel(options.channel),
      clock(options.clock),
      arenas(options.arenas),
      timeline(options.timeline),
      own_meter(nullptr),
      meter(options.meter != nullptr ? *options.meter : own_meter),
      flight(options.flight, options.rank, options.size, options.epoch),
      names(options.rank, options.size, options.most_asked),
      negotiation(options.link, &names, &join),
      pool(options.next_handles),
      posts(options.channel),
      offer(options.channel->rendezvous(), options.arenas),
      news(options.rank) {}

void SubmissionBook::Finish(Submission* submission, const absl::Status& status) {
  Finish(submission, names.Find(submission->group, submission->name), status, clock());
}

void SubmissionBook::Account(Submission* submission, Name* name, const absl::Status& status, int64_t now_ns) {
  if (name != nullptr) {
    meter.Count(name->is_given, &name->step);
    --name->outstanding;
    name->outstanding_ops &= ~BitOf(submission->op);
    name->flight.spent_ns += std::max<int64_t>(0, now_ns - submission->submitted_ns);
  }
  join.OnFinished(submission);
  pending.fetch_sub(1);
  if (submission->ready.is_captured()) captured_count.fetch_sub(1);
  // Its only writer has the lock.
  completions.store(completions.load() + 1);
  FlightRecorder::End(submission->flight, StateOf(status), now_ns);
  if (IsOn(timeline)) timeline->Add(*submission, clock());
}

void SubmissionBook::FinishMet(Submission* submission, Name* name, int64_t now_ns) {
  Account(submission, name, absl::OkStatus(), now_ns);
  const bool may_repeat = submission->op == OpType::kAllreduce && submission->fragments.size() == 1 && name->is_given;
  submission->waiters = 0;
  if (!may_repeat) return pool.Recycle(submission);
  ForgetMet();
  pool.Park(submission);
  met = submission;
  met_name = name;
  met_key.store(NamedAllreduce::KeyOf(submission->name), std::memory_order_relaxed);
}

Submission* SubmissionBook::TakeRepeated(const NamedAllreduce& call, Name** name) {
  if (met == nullptr || !IsOf(call, *met)) {
    // Callers need not try again before another one is kept.
    met_key.store(0, std::memory_order_relaxed);
    return nullptr;
  }
  Submission* const submission = std::exchange(met, nullptr);
  pool.Reuse(submission);
  submission->fragments[0].input = call.input;
  submission->fragments[0].output = call.output;
  submission->joins = join.count();
  *name = met_name;
  return submission;
}

void SubmissionBook::ForgetMet() {
  if (met == nullptr) return;
  pool.Recycle(std::exchange(met, nullptr));
  met_key.store(0, std::memory_order_relaxed);
}

void SubmissionBook::Finish(Submission* submission, Name* name, const absl::Status& status, int64_t now_ns) {
  submission->status = status;
  submission->running = false;
  Account(submission, name, status, now_ns);
  const bool is_over = submission->released && submission->waiters == 0;
  if (!is_over) submission->complete.store(true);
  EnterHeld(*submission, status);
  if (is_over) pool.Recycle(submission);
}

void SubmissionBook::Enter(Submission* submission, Name* name) {
  if (submission->op == OpType::kJoin) {
    join.Begin(submission);
    name->posted.push_back(submission);
    negotiation.DescribeJoin(*submission);
    return PostJoin();
  }
  if (name->slot == 0 && negotiation.is_alone()) AssignSlot(name, ++last_own_slot);
  if (name->slot != 0) {
    submission->slot = name->slot;
    name->posted.push_back(submission);
    Send(MakePost(*submission));
    return;
  }
  name->waiting.push_back(submission);
  if (name->asking == Name::Asking::kNot) negotiation.Ask(name);
}

void SubmissionBook::EnterOrHold(Submission* submission, Name* name) {
  const Submission* first = pool.Find(submission->after);
  if (first != nullptr && !first->running && !first->complete.load()) return held.Add(submission);
  const bool may_enter = first == nullptr || first->status.ok();
  may_enter ? Enter(submission, name) : Finish(submission, name, first->status, clock());
}

void SubmissionBook::EnterHeld(const Submission& first, const absl::Status& status) {
  if (held.empty()) return;
  const std::vector<Submission*> taken = held.TakeAfter(first.handle);
  for (Submission* submission : taken) {
    Name* name = names.Find(submission->group, submission->name);
    status.ok() ? Enter(submission, name) : Finish(submission, name, status, clock());
  }
  if (!taken.empty()) PostJoin();
}

void SubmissionBook::AssignSlot(Name* name, uint32_t slot) {
  negotiation.EndAsking(name);
  names.SetSlot(name, slot);
  flight.Assign(name->flight, slot);
  news.Add(SlotAdded{slot, name->group});
}

Post SubmissionBook::MakePost(const Submission& submission) {
  meter.Submitted(submission.slot);
  return PostOf(submission, names.group(submission.group).position, arenas);
}

void SubmissionBook::PostJoin() {
  if (!join.IsDue() || offer.submission() != nullptr || !held.empty() || names.HasWaiting()) return;
  Send(join.TakePost());
}

void SubmissionBook::DropOffer(const absl::Status& reason) {
  if (offer.submission() != nullptr) Finish(offer.Close(), offer.name(), reason, clock());
}

void SubmissionBook::FailPending(uint32_t number, const absl::Status& reason) {
  for (Submission* submission : names.TakePending(number)) Finish(submission, reason);
}

void SubmissionBook::UnlockAndDrop() {
  const std::vector<HandlePool::OnGpu> dropped = pool.TakeDropped();
  mutex.unlock();
}

void SubmissionBook::FailDisputed(uint32_t number, const absl::Status& reason) {
  for (Submission* submission : disputes.TakeGroup(number)) Finish(submission, reason);
}

}  // namespace farandole
