#include "worker/engine/submissions/submission_table.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/engine/submissions/name_times.h"
#include "worker/engine/submissions/pending_report.h"
#include "worker/engine/submissions/request_check.h"
#include "worker/engine/submissions/submission_of_request.h"
#include "worker/measure/flight_reader.h"

namespace farandole {
namespace {

// Pending submissions of one rank; a program that leaves so many unanswered has lost them.
constexpr int64_t kMaxPending = 1 << 20;

// The name of unnamed submissions that the table holds. It gives them to the ranks after others that came later, but in
// one order on all ranks.
std::string HeldName(OpType op) { return absl::StrCat(TraitsOf(op).unnamed, ".held"); }

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

}  // namespace

absl::StatusOr<SubmissionTable::Group*> SubmissionTable::FindGroup(const Request& request, absl::string_view name) {
  if (!book_.ended.ok()) return book_.ended;
  Group* const found = book_.names.FindGroup(request.group);
  if (found == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": there is no process set ", request.group, " in this epoch"));
  }
  Group& group = *found;
  if (group.position < 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": rank ", book_.rank, " is not in process set ",
                                                   request.group, " of ranks [", absl::StrJoin(group.ranks, ","), "]"));
  }
  if (!group.broken.ok()) return group.broken;
  if (book_.join.has_joined()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": rank ", book_.rank, " has joined, and can submit nothing more until all ranks have"));
  }
  return &group;
}

absl::Status SubmissionTable::Check(const Request& request, absl::string_view name, const Group& group) const {
  if (absl::Status status = CheckRequest(name, request); !status.ok()) return status;
  return CheckInGroup(name, request, group.ranks, group.position);
}

absl::Status SubmissionTable::CheckRoom(const Request& request, absl::string_view name) const {
  if (request.after != 0 && book_.pool.Find(request.after) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": there is no handle ", request.after, " of the call's first submission"));
  }
  if (book_.pending.load() >= kMaxPending) {
    return absl::ResourceExhaustedError(
        absl::StrCat(name, ": ", kMaxPending, " submissions are pending, the most that can be"));
  }
  if (book_.pool.IsFull()) {
    return absl::ResourceExhaustedError(absl::StrCat(name, ": ", HandlePool::kMostHandles,
                                                     " handles are held, the most that can be; release those that "
                                                     "are complete"));
  }
  return absl::OkStatus();
}

Submission* SubmissionTable::Accept(const Request& request, const Group& group, Name* name, bool is_covered) {
  Submission* submission = book_.pool.Allocate();
  if (is_covered) {
    name->memo.Describe(request, name->name, book_.join.count(), submission);
  } else {
    DescribeRequest(request, name->name, group.ranks, group.position, book_.join.count(), submission);
    name->memo.Keep(request, *submission);
  }
  return submission;
}

absl::StatusOr<int64_t> SubmissionTable::Submit(const Request& request) {
  std::lock_guard<std::mutex> lock(book_.mutex);
  absl::StatusOr<Submission*> submission = SubmitLocked(request, /*is_driven=*/false);
  if (!submission.ok()) return submission.status();
  return (*submission)->handle;
}

absl::StatusOr<Submission*> SubmissionTable::SubmitAndBeginWaiting(const Request& request) {
  std::lock_guard<std::mutex> lock(book_.mutex);
  absl::StatusOr<Submission*> submission = SubmitLocked(request, /*is_driven=*/true);
  if (submission.ok()) ++(*submission)->waiters;
  return submission;
}

absl::StatusOr<Submission*> SubmissionTable::SubmitLocked(const Request& request, bool is_driven) {
  const absl::string_view own_name = request.name.empty() ? TraitsOf(request.op).unnamed : request.name;
  const absl::StatusOr<Group*> group = FindGroup(request, own_name);
  if (!group.ok()) {
    // The sentence may have the name in it.
    if (absl::Status status = CheckNameText(own_name); !status.ok()) return status;
    return group.status();
  }
  const bool is_held = request.name.empty() && request.after != 0;
  const std::string held_name = is_held ? HeldName(request.op) : "";
  const absl::string_view key = is_held ? absl::string_view(held_name) : own_name;
  Name* name = book_.names.Recall(*group, key);
  const bool is_covered = name != nullptr && name->memo.Covers(request);
  if (!is_covered) {
    if (absl::Status status = Check(request, own_name, **group); !status.ok()) return status;
  }
  if (absl::Status status = CheckRoom(request, own_name); !status.ok()) return status;
  if (name == nullptr) name = book_.names.FindOrAdd(*group, request.group, key);
  name->is_given = !request.name.empty();
  if (!request.name.empty() && (name->outstanding_ops & BitOf(request.op)) != 0) {
    // In Horovod's words, which its users look for in their logs.
    return absl::InvalidArgumentError(absl::StrCat(
        key, ": Requested to ", TraitsOf(request.op).name,
        " a tensor with the same name as another tensor that is currently being processed, in process set ",
        request.group, " on rank ", book_.rank, "; use a different name, or wait for the other one"));
  }
  Submission* submission = Accept(request, **group, name, is_covered);
  Take(submission, name, is_driven);
  return submission;
}

Submission* SubmissionTable::RepeatAndBeginWaiting(const NamedAllreduce& call) {
  std::lock_guard<std::mutex> lock(book_.mutex);
  const bool may_submit =
      book_.pending.load() == 0 && book_.ended.ok() && book_.names.group(0).broken.ok() && !book_.join.has_joined();
  if (!may_submit || call.input == nullptr || call.output == nullptr) return nullptr;
  Name* name = nullptr;
  Submission* const submission = book_.TakeRepeated(call, &name);
  if (submission == nullptr) return nullptr;
  submission->waiters = 1;
  Take(submission, name, /*is_driven=*/true);
  return submission;
}

void SubmissionTable::Take(Submission* submission, Name* name, bool is_driven) {
  submission->submitted_ns = book_.clock();
  if (IsOn(book_.timeline)) book_.timeline->Begin(submission);
  ++name->outstanding;
  name->outstanding_ops |= BitOf(submission->op);
  book_.pending.fetch_add(1);
  // Between counting and posting: a thread that gives the engine's role back meanwhile sees the count, or the bell's
  // state that it left is changed here; and no answer to the post can find the rank unconcerned. A thread that drives
  // looks for the answer itself.
  if (!is_driven) book_.channel->doorbell().Concern();
  ++book_.submissions;
  submission->flight = Record(*submission, name, &book_.flight);
  book_.last_submitted_ns.store(submission->submitted_ns, std::memory_order_relaxed);
  if (submission->ready.is_captured()) {
    book_.captured_count.fetch_add(1);
    book_.captured.push_back(submission->handle);
    name->waiting.push_back(submission);
  } else if (submission->after != 0) {
    book_.EnterOrHold(submission, name);
  } else if (is_driven && book_.pending.load() == 1 && book_.offer.MayOpen(*submission, *name)) {
    book_.meter.Submitted(name->slot);
    book_.offer.Open(submission, name, book_.rank);
  } else {
    book_.Enter(submission, name);
  }
}

bool SubmissionTable::EnterCaptured() {
  struct Captured {
    int64_t handle;
    std::shared_ptr<Gpu> gpu;
    GpuEvent ready;
    absl::Status status;
  };
  std::vector<Captured> entering;
  {
    std::lock_guard<std::mutex> lock(book_.mutex);
    for (const int64_t handle : std::exchange(book_.captured, {})) {
      const Submission* submission = book_.pool.Find(handle);
      if (submission != nullptr && !submission->complete.load())
        entering.push_back({handle, submission->gpu, submission->ready, absl::OkStatus()});
    }
  }
  // Without the lock: drivers may take their time.
  for (Captured& one : entering) one.status = one.gpu->CheckCapture(one.ready);
  const SubmissionBook::Lock lock(&book_);
  for (const Captured& one : entering) {
    Submission* submission = book_.pool.Find(one.handle);
    if (submission == nullptr || submission->complete.load()) continue;
    Name* name = book_.names.Find(submission->group, submission->name);
    if (name == nullptr) continue;
    const auto at = std::find(name->waiting.begin(), name->waiting.end(), submission);
    if (at == name->waiting.end()) continue;  // it has gone with another one that has no name either
    name->waiting.erase(at);
    if (!one.status.ok()) {
      book_.Finish(submission, name, one.status, book_.clock());
    } else if (submission->after != 0) {
      book_.EnterOrHold(submission, name);
    } else {
      book_.Enter(submission, name);
    }
  }
  if (!entering.empty()) book_.notice.Notify();
  return !entering.empty();
}

Submission* SubmissionTable::BeginWaiting(int64_t handle) {
  std::lock_guard<std::mutex> lock(book_.mutex);
  Submission* submission = book_.pool.Find(handle);
  if (submission != nullptr) ++submission->waiters;
  return submission;
}

absl::StatusOr<bool> SubmissionTable::DoneWaiting(Submission* submission, bool release) {
  const SubmissionBook::Lock lock(&book_);
  --submission->waiters;
  if (!submission->complete.load()) return false;
  const absl::Status status = submission->status;
  if (release) submission->released = true;
  if (submission->released && submission->waiters == 0) book_.pool.Recycle(submission);
  if (!status.ok()) return status;
  return true;
}

void SubmissionTable::Release(int64_t handle) {
  const SubmissionBook::Lock lock(&book_);
  Submission* submission = book_.pool.Find(handle);
  if (submission == nullptr) return;
  submission->released = true;
  if (submission->complete.load() && submission->waiters == 0) book_.pool.Recycle(submission);
}

void SubmissionTable::End(const absl::Status& reason) {
  const SubmissionBook::Lock lock(&book_);
  if (book_.ended.ok()) book_.ended = reason;
  book_.offer.CloseRendezvous();
  book_.DropOffer(book_.ended);
  for (auto& [number, group] : book_.names.groups()) {
    book_.FailPending(number, book_.ended);
    book_.FailDisputed(number, book_.ended);
  }
  book_.notice.Notify();
}

void SubmissionTable::PostLeave() {
  std::lock_guard<std::mutex> lock(book_.mutex);
  Post post;
  post.kind = Post::Kind::kLeave;
  book_.offer.CloseRendezvous();
  if (book_.offer.submission() == nullptr) return book_.Send(post);
  // Not behind the submissions in the rendezvous, whose outcome may depend on what other ranks do once they read this
  // post.
  book_.posts.SendFirst(post, /*is_offering=*/true);
}

bool SubmissionTable::FlushPosts() {
  std::lock_guard<std::mutex> lock(book_.mutex);
  return book_.posts.Flush(book_.offer.submission() != nullptr);
}

std::vector<OrdererNews> SubmissionTable::TakeNews() {
  std::lock_guard<std::mutex> lock(book_.mutex);
  return book_.news.Take();
}

bool SubmissionTable::HasJoined() const {
  std::lock_guard<std::mutex> lock(book_.mutex);
  return book_.join.has_joined();
}

uint32_t SubmissionTable::joins() const {
  std::lock_guard<std::mutex> lock(book_.mutex);
  return book_.join.count();
}

int64_t SubmissionTable::next_handles() const {
  std::lock_guard<std::mutex> lock(book_.mutex);
  return book_.pool.next_handles();
}

absl::Status SubmissionTable::ended() const {
  std::lock_guard<std::mutex> lock(book_.mutex);
  return book_.ended;
}

std::vector<int> SubmissionTable::left() const {
  std::lock_guard<std::mutex> lock(book_.mutex);
  return book_.left;
}

absl::StatusOr<std::vector<int>> SubmissionTable::RanksOf(uint32_t group) const {
  std::lock_guard<std::mutex> lock(book_.mutex);
  const Group* const found = book_.names.FindGroup(group);
  if (found == nullptr) return absl::NotFoundError(absl::StrCat("there is no process set ", group));
  return found->ranks;
}

bool SubmissionTable::WasRemoved(uint32_t group) const {
  std::lock_guard<std::mutex> lock(book_.mutex);
  return book_.names.WasRemoved(group);
}

bool SubmissionTable::IsIdle(uint32_t group) const {
  std::lock_guard<std::mutex> lock(book_.mutex);
  return book_.names.IsIdle(group);
}

v1::StallReport SubmissionTable::ReadActivity(int64_t now_ns) const {
  std::lock_guard<std::mutex> lock(book_.mutex);
  v1::StallReport report = ReportPending(book_.pool, now_ns);
  const v1::FlightRecords last = farandole::ReadFlight(book_.flight.page(), 1, now_ns);
  if (last.records_size() > 0) {
    report.set_last_submitted(last.names(static_cast<int>(last.records().rbegin()->name())));
    report.set_last_submitted_age_ms(last.records().rbegin()->age_us() / 1000);
  }
  report.set_completed(book_.completions.load());
  report.set_unasked(book_.names.unasked());
  return report;
}

v1::FlightRecords SubmissionTable::ReadFlight(size_t most, int64_t now_ns, bool with_times) const {
  std::lock_guard<std::mutex> lock(book_.mutex);
  v1::FlightRecords records = farandole::ReadFlight(book_.flight.page(), most, now_ns);
  if (with_times) AddNameTimes(book_.names, &records);
  return records;
}

int64_t SubmissionTable::OldestPendingAge(int64_t now_ns) const {
  if (pending() == 0) return 0;
  std::lock_guard<std::mutex> lock(book_.mutex);
  int64_t oldest_ns = 0;
  for (const Submission& submission : book_.pool.submissions()) {
    // A rank that has joined waits for the others as long as they have data.
    const bool counts = submission.in_use && !submission.complete.load() && !submission.running;
    if (counts && submission.op != OpType::kJoin) oldest_ns = std::max(oldest_ns, now_ns - submission.submitted_ns);
  }
  return oldest_ns;
}

SubmissionTable::Counters SubmissionTable::counters() const {
  std::lock_guard<std::mutex> lock(book_.mutex);
  Counters read;
  read.submissions = book_.submissions;
  read.completions = book_.completions.load();
  read.negotiation_messages = book_.negotiation.messages();
  return read;
}

}  // namespace farandole
