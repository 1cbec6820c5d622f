// The part of SubmissionTable that follows the coordinator and the order log.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "worker/engine/submissions/pending_report.h"
#include "worker/engine/submissions/submission_table.h"
#include "worker/measure/flight_reader.h"

namespace farandole {

void SubmissionTable::OnSlotAssigned(absl::string_view name_text, uint32_t group, uint32_t slot) {
  std::lock_guard<std::mutex> lock(mutex_);
  negotiation_.CountAnswer();
  Name* name = names_.Find(group, name_text);
  if (name == nullptr || names_.group(group).position < 0) {
    // Rank 0 orders the slots of groups that it is not in.
    news_.Add(SlotAdded{slot, group});
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
  negotiation_.CountAnswer();
  const absl::Status status = absl::InvalidArgumentError(told.sentence);
  Name* name = names_.Find(told.group, told.name);
  if (told.disputed_slot != 0) {
    Submission* const disputed = disputes_.Take(told.disputed_slot, told.attempt);
    if (disputed == nullptr) return;
    const bool is_newer = name != nullptr && name->slot == told.disputed_slot &&
                          (!name->told.has_value() || name->told->attempt < told.attempt);
    if (is_newer) name->told = told;
    Finish(disputed, status);
    return notice_.Notify();
  }
  if (name == nullptr || name->waiting.empty()) return;
  Submission* submission = name->waiting.front();
  name->waiting.pop_front();
  negotiation_.EndAsking(name);
  name->told = told;
  Finish(submission, status);
  if (!name->waiting.empty()) negotiation_.Ask(name);
  PostJoin();
  notice_.Notify();
}

void SubmissionTable::OnGroupAdded(uint32_t number, std::vector<int> ranks) {
  std::lock_guard<std::mutex> lock(mutex_);
  names_.AddGroup(number, ranks, ended_);
  news_.Add(GroupAdded{number, std::move(ranks)});
}

void SubmissionTable::OnGroupRemoved(uint32_t number) {
  const Lock lock(this);
  if (names_.FindGroup(number) == nullptr) return;
  const absl::Status removed = absl::InvalidArgumentError(absl::StrCat("process set ", number, " was removed"));
  FailPending(number, removed);
  FailDisputed(number, removed);
  names_.RemoveGroup(number);
  notice_.Notify();
  news_.Add(GroupRemoved{number});
}

void SubmissionTable::AskAgain() {
  const Lock lock(this);
  for (auto& [number, group] : names_.groups()) {
    for (auto& [key, name] : group.names) {
      if (name->asking == Name::Asking::kAsked && !name->waiting.empty()) negotiation_.AskNow(name.get());
    }
    // A rank that has left will not describe it again.
    if (!group.broken.ok()) FailDisputed(number, group.broken);
  }
  notice_.Notify();
  if (join_.submission() != nullptr) negotiation_.DescribeJoin(*join_.submission());
  for (const Disputes::Dispute& one : disputes_.all())
    negotiation_.DescribeDispute(*one.submission, one.slot, one.attempt);
}

void SubmissionTable::OnRootHasJoined(const Entry& entry) {
  const Lock lock(this);
  Submission* submission = names_.TakePosted(entry.slot);
  if (submission == nullptr) return;
  const int root = names_.group(submission->group).ranks[entry.root];
  Finish(submission, absl::InvalidArgumentError(absl::StrCat(
                         submission->name, ": rank ", root, " is the root of the ", TraitsOf(submission->op).name,
                         ", but has joined, so that it has no data for rank ", rank_, " and takes none from it")));
  notice_.Notify();
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
  notice_.Notify();
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
  negotiation_.DescribeDispute(*submission, slot, attempt);
}

void SubmissionTable::OnRetired(uint32_t slot) {
  const Lock lock(this);
  if (rank_ == 0) negotiation_.ReportRetired(slot);
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
  offer_.CloseRendezvous();
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
  notice_.Notify();
}

void SubmissionTable::End(const absl::Status& reason) {
  const Lock lock(this);
  if (ended_.ok()) ended_ = reason;
  offer_.CloseRendezvous();
  DropOffer(ended_);
  for (auto& [number, group] : names_.groups()) {
    FailPending(number, ended_);
    FailDisputed(number, ended_);
  }
  notice_.Notify();
}

v1::StallReport SubmissionTable::ReadActivity(int64_t now_ns) const {
  std::lock_guard<std::mutex> lock(mutex_);
  v1::StallReport report = ReportPending(pool_, now_ns);
  const v1::FlightRecords last = farandole::ReadFlight(flight_.page(), 1, now_ns);
  if (last.records_size() > 0) {
    report.set_last_submitted(last.names(static_cast<int>(last.records().rbegin()->name())));
    report.set_last_submitted_age_ms(last.records().rbegin()->age_us() / 1000);
  }
  report.set_completed(completions_.load());
  report.set_unasked(names_.unasked());
  return report;
}

v1::FlightRecords SubmissionTable::ReadFlight(size_t most, int64_t now_ns) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return farandole::ReadFlight(flight_.page(), most, now_ns);
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
  read.negotiation_messages = negotiation_.messages();
  return read;
}

}  // namespace farandole
