// The part of SubmissionTable that follows the coordinator and the order log, and that tells what is pending.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "worker/engine/submission_table.h"

namespace farandole {
namespace {

constexpr size_t kMaxReported = 64;
// As Hello allows.
constexpr size_t kMaxTold = 65536;

}  // namespace

SubmissionTable::Name* SubmissionTable::FindName(uint32_t group, absl::string_view name) {
  auto found = groups_.find(group);
  if (found == groups_.end()) return nullptr;
  auto entry = found->second.names.find(name);
  return entry == found->second.names.end() ? nullptr : entry->second.get();
}

void SubmissionTable::Ask(Name* name) {
  Group& group = groups_[name->group];
  if (group.asked < most_asked_) {
    ++group.asked;
    return AskNow(name);
  }
  name->asking = Name::Asking::kQueued;
  group.unasked.push_back(name);
}

void SubmissionTable::EndAsking(Name* name) {
  Group& group = groups_[name->group];
  const Name::Asking was = std::exchange(name->asking, Name::Asking::kNot);
  if (was == Name::Asking::kQueued) group.unasked.erase(std::find(group.unasked.begin(), group.unasked.end(), name));
  if (was != Name::Asking::kAsked) return;
  --group.asked;
  if (group.unasked.empty()) return;
  Name* const next = group.unasked.front();
  group.unasked.pop_front();
  ++group.asked;
  AskNow(next);
}

void SubmissionTable::AskNow(Name* name) {
  name->asking = Name::Asking::kAsked;
  Describe(*name->waiting.front(), name->retired_slot, 0, 0, name->ordinal(joins_));
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
  Name* name = FindName(group, name_text);
  if (name == nullptr || groups_[group].position < 0) {
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
    PostOne(submission);
  }
  PostJoin();
}

void SubmissionTable::OnMismatch(const Disagreement& told) {
  const Lock lock(this);
  ++counters_.negotiation_messages;
  const absl::Status status = absl::InvalidArgumentError(told.sentence);
  Name* name = FindName(told.group, told.name);
  if (told.disputed_slot != 0) {
    auto at = std::find_if(disputed_.begin(), disputed_.end(), [&](const Disputed& one) {
      return one.slot == told.disputed_slot && one.attempt == told.attempt;
    });
    if (at == disputed_.end()) return;
    const bool is_newer = name != nullptr && name->slot == told.disputed_slot &&
                          (!name->told.has_value() || name->told->attempt < told.attempt);
    if (is_newer) name->told = told;
    Finish(at->submission, status);
    disputed_.erase(at);
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
  Group group;
  auto at = std::lower_bound(ranks.begin(), ranks.end(), rank_);
  if (at != ranks.end() && *at == rank_) group.position = static_cast<int>(at - ranks.begin());
  group.ranks = ranks;
  group.broken = ended_;
  groups_[number] = std::move(group);
  newest_group_ = std::max(newest_group_, number);
  if (rank_ == 0) {
    news_.push_back(GroupAdded{number, std::move(ranks)});
    has_news_.store(true);
  }
}

void SubmissionTable::OnGroupRemoved(uint32_t number) {
  const Lock lock(this);
  auto found = groups_.find(number);
  if (found == groups_.end()) return;
  const absl::Status removed = absl::InvalidArgumentError(absl::StrCat("process set ", number, " was removed"));
  FailPending(number, removed);
  FailDisputed(number, removed);
  for (const auto& [key, name] : found->second.names) slots_.erase(name->slot);
  groups_.erase(found);
  NotifyLocked();
  if (rank_ == 0) {
    news_.push_back(GroupRemoved{number});
    has_news_.store(true);
  }
}

void SubmissionTable::AskAgain() {
  const Lock lock(this);
  for (auto& [number, group] : groups_) {
    for (auto& [key, name] : group.names) {
      if (name->asking == Name::Asking::kAsked && !name->waiting.empty()) AskNow(name.get());
    }
    // A rank that has left will not describe it again.
    if (!group.broken.ok()) FailDisputed(number, group.broken);
  }
  NotifyLocked();
  if (joining_ != nullptr) Describe(*joining_, 0, 0, 0, 0);
  for (const Disputed& one : disputed_) Describe(*one.submission, 0, one.slot, one.attempt, 0);
}

void SubmissionTable::OnRootHasJoined(const Entry& entry) {
  const Lock lock(this);
  Submission* submission = TakePosted(entry.slot);
  if (submission == nullptr) return;
  const int root = groups_[submission->group].ranks[entry.root];
  Finish(submission, absl::InvalidArgumentError(absl::StrCat(
                         submission->name, ": rank ", root, " is the root of the ", TraitsOf(submission->op).name,
                         ", but has joined, so that it has no data for rank ", rank_, " and takes none from it")));
  NotifyLocked();
}

void SubmissionTable::OnAllJoined(int rank) {
  const Lock lock(this);
  ++joins_;
  is_join_posted_ = false;
  has_joined_ = false;
  if (joining_ == nullptr) return;
  Submission* submission = joining_;
  FindName(0, submission->name)->posted.clear();
  void* output = submission->fragments[0].output;
  const int32_t last = rank;
  if (output != nullptr) std::memcpy(output, &last, sizeof(last));
  Finish(submission, absl::OkStatus());
  NotifyLocked();
}

bool SubmissionTable::HasJoined() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return has_joined_;
}

void SubmissionTable::OnDispute(uint32_t slot, uint32_t attempt, uint32_t disputants) {
  const Lock lock(this);
  Submission* submission = TakePosted(slot);
  if (submission == nullptr) return;
  submission->disputants = disputants;
  disputed_.push_back({slot, attempt, submission});
  Describe(*submission, 0, slot, attempt, 0);
}

void SubmissionTable::OnRetired(uint32_t slot) {
  const Lock lock(this);
  if (rank_ == 0 && link_ != nullptr) {
    ++counters_.negotiation_messages;
    link_->ReportRetired(slot);
  }
  auto found = slots_.find(slot);
  if (found == slots_.end()) return;
  Name* name = found->second;
  slots_.erase(found);
  name->slot = 0;
  name->retired_slot = slot;
  name->told.reset();
  if (name->outstanding == 0) {
    // Nothing is pending: the name is forgotten, so that a program with ever new names does not grow. The coordinator
    // hears of the slot's end from rank 0.
    groups_[name->group].names.erase(std::string(name->name));
    return;
  }
  // Posted when rank 0 had already retired the slot: asked for anew.
  std::deque<Submission*> posted = std::exchange(name->posted, {});
  for (Submission* submission : posted) {
    submission->slot = 0;
    ++returned_;
    is_join_posted_ = false;
    Enter(submission, name);
  }
  PostJoin();
}

void SubmissionTable::FailPending(uint32_t number, const absl::Status& reason) {
  Group& group = groups_[number];
  group.asked = 0;
  group.unasked.clear();
  for (auto& [key, name] : group.names) {
    for (std::deque<Submission*>* queue : {&name->posted, &name->waiting}) {
      for (Submission* submission : std::exchange(*queue, {})) Finish(submission, reason);
    }
    name->asking = Name::Asking::kNot;
  }
}

void SubmissionTable::FailDisputed(uint32_t number, const absl::Status& reason) {
  for (auto one = disputed_.begin(); one != disputed_.end();) {
    if (one->submission->group == number) {
      Finish(one->submission, reason);
      one = disputed_.erase(one);
    } else {
      ++one;
    }
  }
}

void SubmissionTable::OnLeft(int rank, const std::string& who) {
  const Lock lock(this);
  if (rank != rank_) left_.push_back(rank);
  CloseRendezvous();
  for (auto& [number, group] : groups_) {
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
  if (rank == rank_) DropOffer(groups_[0].broken);
  NotifyLocked();
}

void SubmissionTable::End(const absl::Status& reason) {
  const Lock lock(this);
  if (ended_.ok()) ended_ = reason;
  CloseRendezvous();
  DropOffer(ended_);
  for (auto& [number, group] : groups_) {
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
  activity.last_submitted_age_ns = last_submitted_ns_ == 0 ? 0 : now_ns - last_submitted_ns_;
  activity.completed = completions_.load();
  for (const auto& [number, group] : groups_) activity.unasked += static_cast<uint32_t>(group.unasked.size());
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
  std::vector<SlotName> slots;
  for (const auto& [number, name] : slots_) slots.push_back({name->name, name->group, number});
  return slots;
}

std::vector<Disagreement> SubmissionTable::Told() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Disagreement> told;
  for (const auto& [number, group] : groups_) {
    for (const auto& [key, name] : group.names) {
      const bool is_due = name->told.has_value() && (name->told->disputed_slot != 0 || name->told->joins == joins_);
      if (is_due && told.size() < kMaxTold) told.push_back(*name->told);
    }
  }
  return told;
}

std::map<uint32_t, std::vector<int>> SubmissionTable::Groups() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::map<uint32_t, std::vector<int>> groups;
  for (const auto& [number, group] : groups_) {
    if (number != 0) groups[number] = group.ranks;
  }
  return groups;
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
  auto found = groups_.find(group);
  if (found == groups_.end()) return absl::NotFoundError(absl::StrCat("there is no process set ", group));
  return found->second.ranks;
}

bool SubmissionTable::WasRemoved(uint32_t group) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return group <= newest_group_ && groups_.count(group) == 0;
}

bool SubmissionTable::IsIdle(uint32_t group) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = groups_.find(group);
  if (found == groups_.end()) return true;
  for (const auto& [key, name] : found->second.names) {
    if (name->outstanding > 0) return false;
  }
  return true;
}

SubmissionTable::Counters SubmissionTable::counters() const {
  std::lock_guard<std::mutex> lock(mutex_);
  Counters read = counters_;
  read.completions = completions_.load();
  return read;
}

}  // namespace farandole
