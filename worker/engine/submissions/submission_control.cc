// The part of SubmissionTable that follows the coordinator and the order log, and that reports pending submissions.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "worker/engine/submissions/submission_table.h"

namespace farandole {
namespace {

constexpr size_t kMaxReported = 64;

}  // namespace

void SubmissionTable::Ask(Name* name) {
  if (names_.BeginAsking(name)) AskNow(name);
}

void SubmissionTable::EndAsking(Name* name) {
  if (Name* const next = names_.EndAsking(name); next != nullptr) AskNow(next);
}

void SubmissionTable::AskNow(Name* name) {
  Describe(*name->waiting.front(), name->retired_slot, 0, 0, name->ordinal(join_.count()));
}

void SubmissionTable::Describe(const Submission& submission, uint32_t retired_slot, uint32_t slot, uint32_t attempt,
                               uint32_t ordinal) {
  if (link_ == nullptr) return;
  ++counters_.negotiation_messages;
  link_->Negotiate(submission, retired_slot, slot, attempt, ordinal);
}

void SubmissionTable::OnSlotAssigned(absl::string_view name_text, uint32_t group, uint32_t slot) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++counters_.negotiation_messages;
  Name* name = names_.Find(group, name_text);
  if (name == nullptr || names_.group(group).position < 0) {
    // Rank 0 orders the slots of groups that it is not in.
    if (rank_ == 0) {
      news_.push_back(SlotAdded{slot, group});
      has_news_.store(true);
    }
    return;
  }
  if (name->slot == slot) return;
  AssignSlot(name, slot);
  while (!name->waiting.empty()) {
    Submission* submission = name->waiting.front();
    name->waiting.pop_front();
    submission->slot = slot;
    name->posted.push_back(submission);
    Send(MakePost(*submission));
  }
  PostJoin();
}

void SubmissionTable::OnMismatch(const Disagreement& told) {
  const Lock lock(this);
  ++counters_.negotiation_messages;
  const absl::Status status = absl::InvalidArgumentError(told.sentence);
  Name* name = names_.Find(told.group, told.name);
  if (told.disputed_slot != 0) {
    Submission* const disputed = disputes_.Take(told.disputed_slot, told.attempt);
    if (disputed == nullptr) return;
    const bool is_newer = name != nullptr && name->slot == told.disputed_slot &&
                          (!name->told.has_value() || name->told->attempt < told.attempt);
    if (is_newer) name->told = told;
    Finish(disputed, status);
    return NotifyLocked();
  }
  if (name == nullptr || name->waiting.empty()) return;
  Submission* submission = name->waiting.front();
  name->waiting.pop_front();
  EndAsking(name);
  name->told = told;
  Finish(submission, status);
  if (!name->waiting.empty()) Ask(name);
  PostJoin();
  NotifyLocked();
}

void SubmissionTable::OnGroupAdded(uint32_t number, std::vector<int> ranks) {
  std::lock_guard<std::mutex> lock(mutex_);
  names_.AddGroup(number, ranks, ended_);
  if (rank_ == 0) {
    news_.push_back(GroupAdded{number, std::move(ranks)});
    has_news_.store(true);
  }
}

void SubmissionTable::OnGroupRemoved(uint32_t number) {
  const Lock lock(this);
  if (names_.FindGroup(number) == nullptr) return;
  const absl::Status removed = absl::InvalidArgumentError(absl::StrCat("process set ", number, " was removed"));
  FailPending(number, removed);
  FailDisputed(number, removed);
  names_.RemoveGroup(number);
  NotifyLocked();
  if (rank_ == 0) {
    news_.push_back(GroupRemoved{number});
    has_news_.store(true);
  }
}

void SubmissionTable::AskAgain() {
  const Lock lock(this);
  for (auto& [number, group] : names_.groups()) {
    for (auto& [key, name] : group.names) {
      if (name->asking == Name::Asking::kAsked && !name->waiting.empty()) AskNow(name.get());
    }
    // A rank that has left will not describe it again.
    if (!group.broken.ok()) FailDisputed(number, group.broken);
  }
  NotifyLocked();
  if (join_.submission() != nullptr) Describe(*join_.submission(), 0, 0, 0, 0);
  for (const Disputes::Dispute& one : disputes_.all()) Describe(*one.submission, 0, one.slot, one.attempt, 0);
}

void SubmissionTable::OnRootHasJoined(const Entry& entry) {
  const Lock lock(this);
  Submission* submission = names_.TakePosted(entry.slot);
  if (submission == nullptr) return;
  const int root = names_.group(submission->group).ranks[entry.root];
  Finish(submission, absl::InvalidArgumentError(absl::StrCat(
                         submission->name, ": rank ", root, " is the root of the ", TraitsOf(submission->op).name,
                         ", but has joined, so that it has no data for rank ", rank_, " and takes none from it")));
  NotifyLocked();
}

void SubmissionTable::OnAllJoined(int rank) {
  const Lock lock(this);
  Submission* const submission = join_.OnAllJoined();
  if (submission == nullptr) return;
  names_.Find(0, submission->name)->posted.clear();
  void* output = submission->fragments[0].output;
  const int32_t last = rank;
  if (output != nullptr) std::memcpy(output, &last, sizeof(last));
  Finish(submission, absl::OkStatus());
  NotifyLocked();
}

bool SubmissionTable::HasJoined() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return join_.has_joined();
}

void SubmissionTable::OnDispute(uint32_t slot, uint32_t attempt, uint32_t disputants) {
  const Lock lock(this);
  Submission* submission = names_.TakePosted(slot);
  if (submission == nullptr) return;
  submission->disputants = disputants;
  disputes_.Add(slot, attempt, submission);
  Describe(*submission, 0, slot, attempt, 0);
}

void SubmissionTable::OnRetired(uint32_t slot) {
  const Lock lock(this);
  if (rank_ == 0 && link_ != nullptr) {
    ++counters_.negotiation_messages;
    link_->ReportRetired(slot);
  }
  Name* const name = names_.Retire(slot);
  if (name == nullptr) return;
  // Posted when rank 0 had already retired the slot: asked for anew.
  std::deque<Submission*> posted = std::exchange(name->posted, {});
  for (Submission* submission : posted) {
    submission->slot = 0;
    join_.CountReturned();
    Enter(submission, name);
  }
  PostJoin();
}

void SubmissionTable::FailPending(uint32_t number, const absl::Status& reason) {
  for (Submission* submission : names_.TakePending(number)) Finish(submission, reason);
}

void SubmissionTable::FailDisputed(uint32_t number, const absl::Status& reason) {
  for (Submission* submission : disputes_.TakeGroup(number)) Finish(submission, reason);
}

void SubmissionTable::OnLeft(int rank, const std::string& who) {
  const Lock lock(this);
  if (rank != rank_) left_.push_back(rank);
  CloseRendezvous();
  for (auto& [number, group] : names_.groups()) {
    if (!std::binary_search(group.ranks.begin(), group.ranks.end(), rank)) continue;
    if (group.broken.ok()) {
      group.broken = absl::AbortedError(
          rank == rank_ ? absl::StrCat("this worker (", who, ") has left the job")
                        : absl::StrCat(who, " has left the job; nothing that needs it can complete any more"));
      FailPending(number, group.broken);
    }
    if (rank == rank_) FailDisputed(number, group.broken);
  }
  // Others' offers are still to be answered by all, or declined, so that it ends everywhere alike.
  if (rank == rank_) DropOffer(names_.group(0).broken);
  NotifyLocked();
}

void SubmissionTable::End(const absl::Status& reason) {
  const Lock lock(this);
  if (ended_.ok()) ended_ = reason;
  CloseRendezvous();
  DropOffer(ended_);
  for (auto& [number, group] : names_.groups()) {
    FailPending(number, ended_);
    FailDisputed(number, ended_);
  }
  NotifyLocked();
}

SubmissionTable::Activity SubmissionTable::ReadActivity(int64_t now_ns) const {
  std::lock_guard<std::mutex> lock(mutex_);
  Activity activity;
  // Of tens of thousands that may be pending, only the oldest are copied.
  std::vector<const Submission*> pending;
  for (const Submission& submission : pool_.submissions()) {
    if (!submission.in_use || submission.complete.load()) continue;
    if (submission.running) {
      ++activity.running;
    } else {
      pending.push_back(&submission);
    }
  }
  const auto reported = pending.begin() + std::min(pending.size(), kMaxReported);
  std::partial_sort(pending.begin(), reported, pending.end(),
                    [](const Submission* a, const Submission* b) { return a->submitted_ns < b->submitted_ns; });
  for (auto one = pending.begin(); one != reported; ++one) {
    activity.pending.push_back({(*one)->name, (*one)->group, (*one)->op, now_ns - (*one)->submitted_ns});
  }
  activity.last_submitted = last_submitted_;
  activity.last_submitted_age_ns = last_submitted_ns() == 0 ? 0 : now_ns - last_submitted_ns();
  activity.completed = completions_.load();
  activity.unasked = names_.unasked();
  return activity;
}

int64_t SubmissionTable::OldestPendingAge(int64_t now_ns) const {
  if (pending() == 0) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  int64_t oldest_ns = 0;
  for (const Submission& submission : pool_.submissions()) {
    // A rank that has joined waits for the others as long as they have data.
    const bool counts = submission.in_use && !submission.complete.load() && !submission.running;
    if (counts && submission.op != OpType::kJoin) oldest_ns = std::max(oldest_ns, now_ns - submission.submitted_ns);
  }
  return oldest_ns;
}

std::vector<SubmissionTable::SlotName> SubmissionTable::Slots() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return names_.Slots();
}

std::vector<Disagreement> SubmissionTable::Told() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return names_.Told(join_.count());
}

std::map<uint32_t, std::vector<int>> SubmissionTable::Groups() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return names_.Ranks();
}

absl::Status SubmissionTable::ended() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return ended_;
}

std::vector<int> SubmissionTable::left() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return left_;
}

absl::StatusOr<std::vector<int>> SubmissionTable::RanksOf(uint32_t group) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const Group* const found = names_.FindGroup(group);
  if (found == nullptr) return absl::NotFoundError(absl::StrCat("there is no process set ", group));
  return found->ranks;
}

bool SubmissionTable::WasRemoved(uint32_t group) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return names_.WasRemoved(group);
}

bool SubmissionTable::IsIdle(uint32_t group) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return names_.IsIdle(group);
}

SubmissionTable::Counters SubmissionTable::counters() const {
  std::lock_guard<std::mutex> lock(mutex_);
  Counters read = counters_;
  read.completions = completions_.load();
  return read;
}

}  // namespace farandole
