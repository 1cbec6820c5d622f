#include "worker/engine/submissions/submission_table.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/engine/submissions/request_check.h"
#include "worker/engine/submissions/submission_of_request.h"
#include "worker/engine/submissions/submission_post.h"

namespace farandole {
namespace {

// Pending submissions of one rank; a program that leaves so many unanswered has lost them.
constexpr int64_t kMaxPending = 1 << 20;

// The name of unnamed submissions that the table holds. It gives them to the ranks after others that came later, but in
// one order on all ranks.
std::string HeldName(OpType op) { return absl::StrCat(TraitsOf(op).unnamed, ".held"); }

uint32_t BitOf(OpType op) { return uint32_t{1} << static_cast<uint32_t>(op); }

FlightRecord* Record(const Submission& submission, NameTable::Name* name, FlightRecorder* flight) {
  FlightRecord* const record =
      flight->Begin(&name->flight, [&] { flight->WriteName(name->name, name->group, name->slot, &name->flight); });
  record->op = static_cast<uint8_t>(submission.op);
  record->dtype = static_cast<uint8_t>(submission.dtype);
  record->is_on_gpu = submission.gpu != nullptr ? 1 : 0;
  record->count = submission.count;
  record->submitted_ns = submission.submitted_ns;
  flight->Submit(record);
  return record;
}

FlightState StateOf(const absl::Status& status) {
  if (status.ok()) return FlightState::kFinished;
  return absl::IsInvalidArgument(status) ? FlightState::kFailed : FlightState::kEnded;
}

}  // namespace

SubmissionTable::SubmissionTable(int rank, int size, ReadyChannel* channel, ControlLink* link, ClockNs clock,
                                 const ArenaTable* arenas, int64_t next_handles, Timeline* timeline, size_t most_asked,
                                 RankMeter* meter, FlightPage* flight, uint64_t epoch)
    : rank_(rank),
      channel_(channel),
      clock_(clock),
      arenas_(arenas),
      timeline_(timeline),
      own_meter_(nullptr),
      meter_(meter != nullptr ? *meter : own_meter_),
      flight_(flight, rank, size, epoch),
      names_(rank, size, most_asked),
      negotiation_(link, &names_, &join_),
      pool_(next_handles),
      posts_(channel),
      offer_(channel->rendezvous()),
      news_(rank) {}

absl::StatusOr<SubmissionTable::Group*> SubmissionTable::Check(const Request& request) {
  const absl::string_view name = request.name.empty() ? TraitsOf(request.op).unnamed : request.name;
  if (!ended_.ok()) return ended_;
  Group* const found = names_.FindGroup(request.group);
  if (found == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": there is no process set ", request.group, " in this epoch"));
  }
  Group& group = *found;
  if (group.position < 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": rank ", rank_, " is not in process set ", request.group,
                                                   " of ranks [", absl::StrJoin(group.ranks, ","), "]"));
  }
  if (!group.broken.ok()) return group.broken;
  if (join_.has_joined()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": rank ", rank_, " has joined, and can submit nothing more until all ranks have"));
  }
  if (absl::Status status = CheckRequest(name, request); !status.ok()) return status;
  const absl::Status fits = CheckInGroup(name, request, group.ranks, group.position);
  if (!fits.ok()) return fits;
  if (request.after != 0 && pool_.Find(request.after) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": there is no handle ", request.after, " of the call's first submission"));
  }
  if (pending_count_.load() >= kMaxPending) {
    return absl::ResourceExhaustedError(
        absl::StrCat(name, ": ", kMaxPending, " submissions are pending, the most that can be"));
  }
  if (pool_.IsFull()) {
    return absl::ResourceExhaustedError(absl::StrCat(name, ": ", HandlePool::kMostHandles,
                                                     " handles are held, the most that can be; release those that "
                                                     "are complete"));
  }
  return &group;
}

int64_t SubmissionTable::next_handles() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return pool_.next_handles();
}

Submission* SubmissionTable::Accept(const Request& request, const Group& group, absl::string_view name) {
  Submission* submission = pool_.Allocate();
  DescribeRequest(request, name, group.ranks, group.position, join_.count(), submission);
  submission->submitted_ns = clock_();
  if (IsOn(timeline_)) timeline_->Begin(submission);
  return submission;
}

absl::StatusOr<int64_t> SubmissionTable::Submit(const Request& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  absl::StatusOr<Submission*> submission = SubmitLocked(request, /*is_driven=*/false);
  if (!submission.ok()) return submission.status();
  return (*submission)->handle;
}

absl::StatusOr<Submission*> SubmissionTable::SubmitAndBeginWaiting(const Request& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  absl::StatusOr<Submission*> submission = SubmitLocked(request, /*is_driven=*/true);
  if (submission.ok()) ++(*submission)->waiters;
  return submission;
}

absl::StatusOr<Submission*> SubmissionTable::SubmitLocked(const Request& request, bool is_driven) {
  absl::StatusOr<Group*> group = Check(request);
  if (!group.ok()) return group.status();
  const std::string held_name = request.name.empty() && request.after != 0 ? HeldName(request.op) : "";
  const absl::string_view own_name = request.name.empty() ? TraitsOf(request.op).unnamed : request.name;
  const absl::string_view key = held_name.empty() ? own_name : held_name;
  Name* const name = names_.FindOrAdd(*group, request.group, key);
  name->is_given = !request.name.empty();
  if (!request.name.empty() && (name->outstanding_ops & BitOf(request.op)) != 0) {
    // In Horovod's words, which its users look for in their logs.
    return absl::InvalidArgumentError(absl::StrCat(
        key, ": Requested to ", TraitsOf(request.op).name,
        " a tensor with the same name as another tensor that is currently being processed, in process set ",
        request.group, " on rank ", rank_, "; use a different name, or wait for the other one"));
  }
  Submission* submission = Accept(request, **group, key);
  ++name->outstanding;
  name->outstanding_ops |= BitOf(request.op);
  pending_count_.fetch_add(1);
  // Between counting and posting: a thread that gives the engine's role back meanwhile sees the count, or the bell's
  // state that it left is changed here; and no answer to the post can find the rank unconcerned. A thread that drives
  // looks for the answer itself.
  if (!is_driven) channel_->doorbell().Concern();
  ++counters_.submissions;
  submission->flight = Record(*submission, name, &flight_);
  last_submitted_ns_.store(submission->submitted_ns, std::memory_order_relaxed);
  if (submission->ready.is_captured()) {
    captured_count_.fetch_add(1);
    captured_.push_back(submission->handle);
    name->waiting.push_back(submission);
  } else if (request.after != 0) {
    EnterOrHold(submission, name);
  } else if (is_driven && pending_count_.load() == 1 && offer_.MayOpen(*submission, *name)) {
    meter_.Submitted(name->slot);
    offer_.Open(submission, name, rank_);
  } else {
    Enter(submission, name);
  }
  return submission;
}

std::vector<OrdererNews> SubmissionTable::TakeNews() {
  std::lock_guard<std::mutex> lock(mutex_);
  return news_.Take();
}

Submission* SubmissionTable::BeginWaiting(int64_t handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  Submission* submission = pool_.Find(handle);
  if (submission != nullptr) ++submission->waiters;
  return submission;
}

absl::StatusOr<bool> SubmissionTable::DoneWaiting(Submission* submission, bool release) {
  const Lock lock(this);
  --submission->waiters;
  if (!submission->complete.load()) return false;
  const absl::Status status = submission->status;
  if (release) submission->released = true;
  if (submission->released && submission->waiters == 0) pool_.Recycle(submission);
  if (!status.ok()) return status;
  return true;
}

void SubmissionTable::Release(int64_t handle) {
  const Lock lock(this);
  Submission* submission = pool_.Find(handle);
  if (submission == nullptr) return;
  submission->released = true;
  if (submission->complete.load() && submission->waiters == 0) pool_.Recycle(submission);
}

void SubmissionTable::Finish(Submission* submission, const absl::Status& status) {
  Finish(submission, names_.Find(submission->group, submission->name), status, clock_());
}

void SubmissionTable::Finish(Submission* submission, Name* name, const absl::Status& status, int64_t now_ns) {
  if (name != nullptr) {
    meter_.Count(name->is_given, &name->step);
    --name->outstanding;
    name->outstanding_ops &= ~BitOf(submission->op);
  }
  join_.OnFinished(submission);
  pending_count_.fetch_sub(1);
  if (submission->ready.is_captured()) captured_count_.fetch_sub(1);
  // Its only writer has the lock.
  completions_.store(completions_.load() + 1);
  submission->status = status;
  submission->running = false;
  FlightRecorder::End(submission->flight, StateOf(status), now_ns);
  if (IsOn(timeline_)) timeline_->Add(*submission, clock_());
  submission->complete.store(true);
  EnterHeld(*submission, status);
  if (submission->released && submission->waiters == 0) pool_.Recycle(submission);
}

void SubmissionTable::Take(const Entry& entry, int64_t now_ns, absl::InlinedVector<Submission*, 2>* taken) {
  std::lock_guard<std::mutex> lock(mutex_);
  taken->clear();
  const int64_t recorded_ns = IsOn(timeline_) ? clock_() : 0;
  if (recorded_ns != 0) timeline_->MarkCycle(recorded_ns);
  for (const Entry::Item& item : entry.items) {
    Submission* submission = names_.TakePosted(item.slot);
    if (submission != nullptr) {
      submission->running = true;
      submission->started_ns = recorded_ns;
      FlightRecorder::Start(submission->flight, entry.sequence, now_ns);
      EnterHeld(*submission, absl::OkStatus());  // all ranks' signatures were equal
    }
    taken->push_back(submission);
  }
}

void SubmissionTable::Complete(absl::Span<Submission* const> submissions, const absl::Status& status, int64_t now_ns) {
  const Lock lock(this);
  for (Submission* submission : submissions) {
    if (submission == nullptr) continue;
    Finish(submission, names_.Find(submission->group, submission->name), status, now_ns);
  }
  notice_.Notify();
}

int64_t SubmissionTable::CompleteInline(const Entry& entry, int64_t now_ns) {
  const Lock lock(this);
  Submission* submission = names_.TakePosted(entry.slot);
  if (submission == nullptr) return -1;
  const int64_t bytes = submission->bytes();
  ScatterResult(*submission, entry.payload);
  FlightRecorder::Start(submission->flight, entry.sequence, now_ns);
  Finish(submission, names_.InSlot(entry.slot), absl::OkStatus(), now_ns);
  notice_.Notify();
  return bytes;
}

int64_t SubmissionTable::CompleteOffered(uint32_t* slot, int64_t now_ns) {
  const Lock lock(this);
  if (offer_.submission() == nullptr) return -1;
  Submission* submission = offer_.CloseAgreed();
  const int64_t bytes = submission->bytes();
  *slot = submission->slot;
  Finish(submission, offer_.name(), absl::OkStatus(), now_ns);
  PostJoin();
  notice_.Notify();
  return bytes;
}

void SubmissionTable::PostOffered() {
  const Lock lock(this);
  if (offer_.submission() == nullptr) return;
  Submission* submission = offer_.CloseDeclined();
  Name* name = offer_.name();
  submission->slot = name->slot;
  // Before all that was submitted since.
  if (const absl::Status& broken = names_.group(0).broken; !broken.ok()) {
    Finish(submission, name, broken, clock_());
  } else if (name->slot == 0) {
    name->waiting.push_front(submission);
    if (name->asking == Name::Asking::kNot) negotiation_.Ask(name);
  } else {
    name->posted.push_front(submission);
    posts_.SendFirst(MakePost(*submission), /*is_offering=*/false);
  }
  PostJoin();
  notice_.Notify();
}

bool SubmissionTable::DeclineOffers() {
  std::lock_guard<std::mutex> lock(mutex_);
  return offer_.Decline();
}

void SubmissionTable::DropOffer(const absl::Status& reason) {
  if (offer_.submission() != nullptr) Finish(offer_.Close(), offer_.name(), reason, clock_());
}

}  // namespace farandole
