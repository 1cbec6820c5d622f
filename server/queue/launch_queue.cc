#include "server/queue/launch_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "server/job/rules/bounds.h"
#include "server/job/rules/own_launch.h"
#include "server/job/rules/wording.h"
#include "server/queue/queued_job.h"

namespace farandole {
namespace {

// Places are looked at so often at least: their reasons have numbers that change.
constexpr absl::Duration kBetweenLooks = absl::Seconds(1);
// A round looks at all that wait, under the lock that each call of a job takes. However many launchers call, it is held
// for a small part of the time.
constexpr absl::Duration kBetweenRounds = absl::Milliseconds(10);
// A process that has not run for so long has heard nobody either.
constexpr absl::Duration kSuspended = absl::Seconds(5);
constexpr absl::Duration kBetweenTries = absl::Seconds(1);
// Calls that may be held for one launch: its own, and those of launches that take part in it.
constexpr size_t kMostWaiters = 16;
// In the log, of a tenant, in TenantLines::kWindow.
constexpr size_t kMostLines = 20;
constexpr size_t kMostReason = 1024;
constexpr size_t kMostWho = 256;

absl::Status Stopped() { return absl::UnavailableError("the coordinator has stopped; ask again when it is back"); }

Queue::Entry ToEntry(const JobKey& key, const v1::QueuedRecord& record) {
  Queue::Entry entry;
  entry.key = key;
  entry.workers = record.most_workers();
  entry.priority = record.priority();
  entry.came = absl::FromUnixMillis(record.launch().since_unix_ms());
  entry.ticket = record.ticket();
  if (record.first_since_unix_ms() == 0) return entry;
  // The wall clock may have been set while no coordinator ran.
  const absl::Duration waited = absl::Now() - absl::FromUnixMillis(record.first_since_unix_ms());
  entry.first_since = SteadyNow() - std::clamp(waited, absl::ZeroDuration(), kReserveAfter);
  return entry;
}

// Answers a call when the lock is not held any more.
void AnswerLater(LaunchQueue::Finish finish, const absl::Status& status, ReplyMessage message,
                 std::vector<std::function<void()>>* calls) {
  calls->emplace_back([finish = std::move(finish), status, message = std::move(message)] { finish(status, message); });
}

v1::CreateJobRequest ToRequest(const v1::QueuedRecord& record) {
  v1::CreateJobRequest request;
  request.set_job(record.job());
  *request.mutable_launch() = record.launch();
  request.set_most_workers(record.most_workers());
  return request;
}

}  // namespace

LaunchQueue::LaunchQueue(Dependencies dependencies, Options options)
    : dependencies_(std::move(dependencies)),
      options_(options),
      rows_(dependencies_.store, [this] { alarm_.Wake(); }),
      lines_(kMostLines, "launches", &LogOfTenant),
      // Another life of the coordinator has given other numbers.
      last_serial_(static_cast<uint64_t>(absl::ToUnixMicros(absl::Now()))) {}

LaunchQueue::~LaunchQueue() { Stop(); }

absl::Status LaunchQueue::Load() {
  const absl::StatusOr<std::vector<v1::QueuedRecord>> records = rows_.Load();
  if (!records.ok()) return records.status();
  const std::lock_guard<std::mutex> lock(mutex_);
  const absl::Time now = SteadyNow();
  for (const v1::QueuedRecord& record : *records) {
    const JobKey key{record.tenant(), record.job()};
    last_ticket_ = std::max(last_ticket_, record.ticket());
    // It has started, and the row could not be deleted.
    if (dependencies_.registry->HasRoom(key)) {
      rows_.Delete(key);
      continue;
    }
    Entry& entry = entries_[key];
    entry.record = record;
    entry.heard_at = now;
    dependencies_.gate->Put(ToEntry(key, record));
  }
  if (!entries_.empty()) {
    settles_until_ = starts_from_[""] = now + options_.settling;
    dependencies_.gate->SetSettling(true);
  }
  is_changed_ = true;
  TellPlaces();
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void LaunchQueue::Look() { alarm_.Wake(); }

void LaunchQueue::Pause() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_paused_ = true;
}

void LaunchQueue::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopped_ = true;
  }
  alarm_.Wake();
  if (thread_.joinable()) thread_.join();
  rows_.Stop();
  Calls calls;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [key, entry] : entries_) {
      for (Waiter& waiter : entry.waiters) AnswerLater(std::move(waiter.finish), Stopped(), {}, &calls);
      entry.waiters.clear();
    }
  }
  Make(std::move(calls));
}

void LaunchQueue::Make(Calls calls) {
  for (const std::function<void()>& call : calls) call();
}

void LaunchQueue::Run() {
  absl::Time last_end = absl::InfinitePast();
  for (absl::Time deadline = SteadyNow();;) {
    alarm_.Await(deadline, last_end + kBetweenRounds);
    Calls calls;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (is_stopped_) return;
      DropSilent(&calls);
      StartAll(&calls);
      TellPlaces();
      AnswerDue(&calls);
      deadline = NextDeadline();
      last_end = SteadyNow();
    }
    rows_.Write();
    Make(std::move(calls));
  }
}

absl::Time LaunchQueue::NextDeadline() const {
  absl::Time next = std::min(rows_.next_try(), lines_.due());
  if (settles_until_ != absl::InfinitePast()) next = std::min(next, settles_until_);
  if (entries_.empty()) return next;
  const absl::Time now = SteadyNow();
  next = std::min(next, now + kBetweenLooks);
  for (const auto& [tenant, from] : starts_from_) next = std::min(next, from);
  for (const auto& [key, entry] : entries_) {
    for (const Waiter& waiter : entry.waiters) next = std::min(next, waiter.deadline);
  }
  return next;
}

void LaunchQueue::Launch(const JobKey& key, v1::CreateJobRequest request, Finish finish) {
  if (absl::Status status = CheckCreateJob(request); !status.ok()) return finish(status, {});
  Waiter waiter{std::move(finish), request.seen_place(), SteadyNow() + absl::Milliseconds(request.hold_ms()),
                request.launch().nonce()};
  Calls calls;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto entry = entries_.find(key);
    if (is_stopped_) {
      AnswerLater(std::move(waiter.finish), Stopped(), {}, &calls);
    } else if (entry != entries_.end()) {
      CallAgain(key, &entry->second, request, std::move(waiter), &calls);
    } else {
      LaunchNew(key, request, std::move(waiter), &calls);
    }
  }
  Make(std::move(calls));
}

void LaunchQueue::LaunchNew(const JobKey& key, const v1::CreateJobRequest& request, Waiter waiter, Calls* calls) {
  if (const absl::Status* ended = ended_.Find(key, request.launch()); ended != nullptr && !request.release())
    return AnswerLater(std::move(waiter.finish), *ended, {}, calls);
  if (dependencies_.registry->HasRoom(key)) {
    calls->push_back(Forward(key, request, std::move(waiter.finish), /*took_room=*/false));
    return;
  }
  if (request.release()) {
    v1::CreateJobResponse response;
    *response.mutable_launch() = request.launch();
    return AnswerLater(std::move(waiter.finish), absl::OkStatus(), response, calls);
  }
  // A launch that has had its job before says since when.
  const bool is_fresh = request.launch().since_unix_ms() == 0;
  if (absl::Status paced = dependencies_.gate->TakePace(key.tenant, is_fresh); !paced.ok())
    return AnswerLater(std::move(waiter.finish), paced, {}, calls);
  absl::Status status =
      is_fresh && settles_until_ != absl::InfinitePast() && dependencies_.gate->CountOf(key.tenant) > 0
          ? absl::ResourceExhaustedError(absl::StrCat("job ", key.job, ": launches that wait already start before it"))
          : dependencies_.gate->Admit(key, request.most_workers(), /*is_on_its_way=*/true);
  if (status.ok()) {
    calls->push_back(Forward(key, request, std::move(waiter.finish), /*took_room=*/true));
    return;
  }
  if (request.may_wait()) {
    const std::string why(status.message());
    status = CheckMayWait(key, request);
    if (status.ok()) return Enqueue(key, request, std::move(waiter), why);
  }
  AnswerLater(std::move(waiter.finish), status, {}, calls);
}

absl::Status LaunchQueue::CheckMayWait(const JobKey& key, const v1::CreateJobRequest& request) const {
  if (absl::Status status = dependencies_.gate->CheckEver(key, request.most_workers()); !status.ok()) return status;
  const size_t of_tenant = dependencies_.gate->CountOf(key.tenant);
  if (of_tenant >= kMaxQueuedOfTenant) {
    return absl::ResourceExhaustedError(absl::StrCat("job ", key.job, ": ", of_tenant, " launches of tenant ",
                                                     key.tenant, " wait already, at most ", kMaxQueuedOfTenant,
                                                     " may"));
  }
  if (entries_.size() < kMaxQueued) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("job ", key.job, ": ", entries_.size(), " launches wait already, at most ", kMaxQueued, " may"));
}

void LaunchQueue::Enqueue(const JobKey& key, const v1::CreateJobRequest& request, Waiter waiter,
                          const std::string& why) {
  Entry& entry = entries_[key];
  v1::QueuedRecord& record = entry.record;
  record.set_tenant(key.tenant);
  record.set_job(key.job);
  *record.mutable_launch() = request.launch();
  record.mutable_launch()->set_since_unix_ms(absl::ToUnixMillis(absl::Now()));
  record.mutable_launch()->set_queued_unix_ms(record.launch().since_unix_ms());
  record.set_most_workers(request.most_workers());
  record.set_priority(request.priority());
  record.set_ticket(++last_ticket_);
  entry.heard_at = SteadyNow();
  entry.waiters.push_back(std::move(waiter));
  dependencies_.gate->Put(ToEntry(key, record));
  rows_.Put(key, record);
  Log(key, absl::StrCat("a launch by ", Plain(request.launch().who(), kMostWho), " waits in the queue: ", why));
  is_changed_ = true;
  alarm_.Wake();
}

void LaunchQueue::CallAgain(const JobKey& key, Entry* entry, const v1::CreateJobRequest& request, Waiter waiter,
                            Calls* calls) {
  const v1::Launch& launch = entry->record.launch();
  const bool is_own = IsSameLaunch(launch, request.launch());
  const absl::Status named = CheckNonce(key.job, launch, request.launch());
  if (!named.ok() && (request.release() || !request.attach()))
    return AnswerLater(std::move(waiter.finish), named, {}, calls);
  if (!is_own && !request.attach()) {
    const absl::Status status = absl::AlreadyExistsError(
        absl::StrCat("job ", key.job, " waits in the queue, launched by ", Plain(launch.who(), kMostWho),
                     "; this is another launch, by ", Plain(request.launch().who(), kMostWho),
                     ": give the job another name (--job), or take part in that run (--attach)"));
    return AnswerLater(std::move(waiter.finish), status, {}, calls);
  }
  if (is_own && request.release()) {
    v1::CreateJobResponse response;
    *response.mutable_launch() = launch;
    if (entry->is_starting)
      calls->push_back(Forward(
          key, request, [](const absl::Status&, ReplyMessage) {}, false));
    Log(key, "its launcher has given up its place in the queue");
    Drop(key, absl::AbortedError(absl::StrCat("job ", key.job, ": its launcher has given up its place in the queue")),
         {}, calls);
    return AnswerLater(std::move(waiter.finish), absl::OkStatus(), response, calls);
  }
  if (is_own) entry->heard_at = SteadyNow();
  // An earlier call of the same launcher, which it has given up by now, makes room.
  if (entry->waiters.size() >= kMostWaiters) {
    AnswerLater(std::move(entry->waiters.front().finish), absl::OkStatus(), PlaceReply(*entry), calls);
    entry->waiters.erase(entry->waiters.begin());
  }
  entry->waiters.push_back(std::move(waiter));
  AnswerEntry(key, entry, SteadyNow(), calls);
  if (!entry->waiters.empty()) alarm_.Wake();
}

std::function<void()> LaunchQueue::Forward(const JobKey& key, const v1::CreateJobRequest& request, Finish finish,
                                           bool took_room) {
  return [this, key, request, finish = std::move(finish), took_room] {
    dependencies_.claim(key, request, [this, key, finish, took_room](const absl::Status& status, ReplyMessage message) {
      // Another launch that has the job has the room as well.
      if (took_room && !status.ok() && !absl::IsAlreadyExists(status)) dependencies_.registry->Release(key);
      finish(status, std::move(message));
    });
  };
}

void LaunchQueue::StartAll(Calls* calls) {
  const absl::Time now = SteadyNow();
  if (settles_until_ != absl::InfinitePast() && now >= settles_until_) {
    settles_until_ = absl::InfinitePast();
    dependencies_.gate->SetSettling(false);
  }
  for (auto one = starts_from_.begin(); one != starts_from_.end();)
    one = one->second > now ? std::next(one) : starts_from_.erase(one);
  std::set<std::string> held;
  for (const auto& [tenant, from] : starts_from_) held.insert(tenant);
  if (is_paused_ || entries_.empty() || held.count("") > 0) return;
  while (std::optional<Queue::Entry> next = dependencies_.gate->StartNext(held)) {
    const JobKey key = next->key;
    Entry& entry = entries_.at(key);
    is_changed_ = true;
    const absl::Status standing = dependencies_.tenants->CheckLauncher(entry.record.launch().token_id());
    if (!standing.ok()) {
      dependencies_.registry->Release(key);
      Log(key, absl::StrCat("loses its place in the queue: ", std::string(standing.message())));
      Drop(key, standing, {}, calls);
      continue;
    }
    entry.is_starting = true;
    calls->emplace_back([this, key, request = ToRequest(entry.record)] {
      dependencies_.claim(key, request, [this, key](const absl::Status& status, ReplyMessage message) {
        OnClaimed(key, status, message);
      });
    });
  }
}

void LaunchQueue::OnClaimed(const JobKey& key, const absl::Status& status, const ReplyMessage& message) {
  Calls calls;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end() || is_stopped_) {
      // It was given up meanwhile, and its job does not have it.
      if (!status.ok() && !absl::IsAlreadyExists(status)) dependencies_.registry->Release(key);
      return;
    }
    Entry& entry = found->second;
    // The store cannot write, or the job or its tenant has no room for the claim: it keeps its place.
    const bool is_of_tenant = absl::IsResourceExhausted(status);
    if (absl::IsUnavailable(status) || is_of_tenant) {
      dependencies_.registry->Release(key);
      entry.is_starting = false;
      dependencies_.gate->Put(ToEntry(key, entry.record));
      starts_from_[is_of_tenant ? key.tenant : ""] = SteadyNow() + kBetweenTries;
      is_changed_ = true;
    } else {
      const absl::Duration waited = absl::Now() - absl::FromUnixMillis(entry.record.launch().since_unix_ms());
      if (status.ok()) dependencies_.metrics->ObserveQueued(waited);
      Log(key, status.ok() ? absl::StrCat("starts after ", absl::FormatDuration(absl::Trunc(waited, absl::Seconds(1))),
                                          " in the queue")
                           : absl::StrCat("cannot start: ", std::string(status.message())));
      Drop(key, status, message, &calls);
    }
  }
  alarm_.Wake();
  Make(std::move(calls));
}

void LaunchQueue::Drop(const JobKey& key, const absl::Status& status, const ReplyMessage& message, Calls* calls) {
  const auto found = entries_.find(key);
  for (Waiter& waiter : found->second.waiters) AnswerLater(std::move(waiter.finish), status, message, calls);
  if (!status.ok()) ended_.Add(key, found->second.record.launch(), status, SteadyNow());
  entries_.erase(found);
  dependencies_.gate->Remove(key);
  dependencies_.registry->ShowQueued(key, std::nullopt);
  rows_.Delete(key);
  is_changed_ = true;
  alarm_.Wake();
}

void LaunchQueue::DropSilent(Calls* calls) {
  const absl::Time now = SteadyNow();
  const bool was_suspended = now > last_round_ + kSuspended;
  last_round_ = now;
  ended_.Forget(now);
  lines_.Tell(now);
  std::vector<JobKey> silent;
  for (auto& [key, entry] : entries_) {
    if (was_suspended || is_paused_) entry.heard_at = now;
    if (!entry.is_starting && now > entry.heard_at + options_.silence) silent.push_back(key);
  }
  for (const JobKey& key : silent) {
    const std::string sentence =
        absl::StrCat("its launcher was not heard of for ", absl::FormatDuration(options_.silence),
                     ", and has lost its place in the ", "queue");
    Log(key, sentence);
    Drop(key, absl::AbortedError(absl::StrCat("job ", key.job, ": ", sentence)), {}, calls);
  }
}

void LaunchQueue::TellPlaces() {
  const absl::Time now = SteadyNow();
  if (!is_changed_ && now < told_at_ + kBetweenLooks) return;
  is_changed_ = false;
  told_at_ = now;
  for (const Queue::Position& place : dependencies_.gate->Positions()) {
    const auto found = entries_.find(place.key);
    if (found == entries_.end()) continue;
    v1::QueuePlace& shown = found->second.place;
    if (shown.position() == place.position && shown.length() == place.length && shown.reason() == place.reason)
      continue;
    shown.set_position(place.position);
    shown.set_length(place.length);
    shown.set_reason(place.reason);
    shown.set_serial(++last_serial_);
    dependencies_.registry->ShowQueued(place.key, farandole::ShowQueued(found->second.record, shown));
  }
  for (const Queue::Entry& noted : dependencies_.gate->TakeNoted()) {
    const auto found = entries_.find(noted.key);
    if (found == entries_.end()) continue;
    const bool is_first = noted.first_since != absl::InfiniteFuture();
    const int64_t since = is_first ? absl::ToUnixMillis(noted.first_since + WallAhead()) : 0;
    if (found->second.record.first_since_unix_ms() == since) continue;
    found->second.record.set_first_since_unix_ms(since);
    rows_.Put(noted.key, found->second.record);
  }
}

void LaunchQueue::AnswerDue(Calls* calls) {
  const absl::Time now = SteadyNow();
  for (auto& [key, entry] : entries_) AnswerEntry(key, &entry, now, calls);
}

void LaunchQueue::AnswerEntry(const JobKey& key, Entry* entry, absl::Time now, Calls* calls) {
  // The answer of its job comes.
  if (entry->is_starting || entry->waiters.empty()) return;
  const bool is_kept = rows_.IsKept(key);
  const absl::Status failure = is_kept ? absl::OkStatus() : rows_.failure();
  std::vector<Waiter> waiting;
  for (Waiter& waiter : entry->waiters) {
    if (!failure.ok()) {
      const absl::Status status = absl::UnavailableError(
          absl::StrCat("job ", key.job, ": its place in the queue cannot be written: ", failure.message()));
      AnswerLater(std::move(waiter.finish), status, {}, calls);
    } else if (is_kept && entry->place.serial() != 0 &&
               (waiter.seen != entry->place.serial() || now >= waiter.deadline)) {
      AnswerLater(std::move(waiter.finish), absl::OkStatus(), PlaceReply(*entry), calls);
    } else {
      waiting.push_back(std::move(waiter));
    }
  }
  entry->waiters = std::move(waiting);
}

void LaunchQueue::Log(const JobKey& key, const std::string& sentence) {
  if (lines_.Admit(key.tenant, SteadyNow())) LogOf(key.Text(), sentence);
}

ReplyMessage LaunchQueue::PlaceReply(const Entry& entry) {
  v1::CreateJobResponse response;
  *response.mutable_launch() = entry.record.launch();
  *response.mutable_queue() = entry.place;
  return response;
}

std::optional<Reply> LaunchQueue::Answer(const JobKey& key, const Event& event) {
  Calls calls;
  std::optional<Reply> reply;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return std::nullopt;
    const Entry& entry = found->second;
    const bool has_run = !entry.is_starting && dependencies_.registry->Knows(key);
    reply = AnswerQueued(entry.record, entry.place, has_run, event);
    const auto* abort = std::get_if<AbortRequested>(&event);
    if (abort != nullptr && reply->status.ok()) Cancel(key, entry, *abort, &calls);
  }
  Make(std::move(calls));
  return reply;
}

void LaunchQueue::Cancel(const JobKey& key, const Entry& entry, const AbortRequested& event, Calls* calls) {
  const std::string said = event.reason.empty() ? "no reason given" : Plain(event.reason, kMostReason);
  const std::string who = event.by_launcher ? "" : "an operator ended the job: ";
  Log(key, absl::StrCat("gives up its place in the queue: ", who, said));
  if (entry.is_starting) {
    v1::CreateJobRequest release = ToRequest(entry.record);
    release.set_release(true);
    calls->push_back(Forward(
        key, release, [](const absl::Status&, ReplyMessage) {}, false));
  }
  Drop(key,
       absl::AbortedError(absl::StrCat("job ", key.job, " has waited in the queue, and does not start: ", who, said)),
       {}, calls);
}

void LaunchQueue::Overlay(const JobKey& key, ReplyMessage* message) const {
  auto* job = std::get_if<v1::GetJobResponse>(message);
  if (job == nullptr) return;
  if (std::optional<v1::JobSummary> summary = dependencies_.registry->FindQueued(key); summary.has_value())
    *job->mutable_summary() = *std::move(summary);
}

}  // namespace farandole
