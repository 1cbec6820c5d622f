#include "server/loop/job_loop.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/job_state.h"
#include "base/retry/retry_delay.h"
#include "base/steady_time.h"
#include "server/job/rules/bounds.h"
#include "server/loop/event_bytes.h"
#include "server/loop/refusal.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

// Of the log about jobs of a tenant, in TenantLines::kWindow.
constexpr size_t kMostLines = 200;

}  // namespace

JobLoop::JobLoop(JobLoopOptions options, JobLoopDependencies dependencies)
    : options_(std::move(options)),
      dependencies_(dependencies),
      mailbox_(options_.mailbox_capacity),
      lines_(kMostLines, "jobs",
             [](const std::string& tenant, const std::string& sentence) {
               spdlog::default_logger_raw()->clone(absl::StrCat("tenant ", tenant))->info(sentence);
             }),
      thread_([this] { Run(); }) {}

JobLoop::~JobLoop() { Stop(); }

void JobLoop::Stop() {
  mailbox_.Close();
  if (thread_.joinable()) thread_.join();
}

absl::Status JobLoop::Push(const JobKey& key, Event event, ByteCharge charge, bool of_cluster) {
  absl::Status status = mailbox_.Push(key, std::move(event), std::move(charge), of_cluster);
  if (status.code() == absl::StatusCode::kResourceExhausted) dependencies_.metrics->CountMailboxRefusal();
  return status;
}

void JobLoop::Restore(const JobKey& key, std::function<void(absl::Status)> done) {
  mailbox_.Post([this, key, done = std::move(done)]() mutable {
    if (jobs_.contains(key)) {
      done(absl::OkStatus());
    } else {
      Open(key)->restored = std::move(done);
    }
  });
}

void JobLoop::Purge(const JobKey& key) {
  mailbox_.Post([this, key] {
    if (!jobs_.contains(key)) Open(key)->is_purge = true;
  });
}

void JobLoop::Run() {
  for (bool is_closed = false;;) {
    const absl::Time due = std::min(timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first, lines_.due());
    turns_.Forgive();
    Mailbox::Delivery delivery = mailbox_.Take(turns_.IsEmpty() ? due : SteadyNow());
    for (std::function<void()>& complete : delivery.completions) std::exchange(complete, nullptr)();
    AcceptAll(std::move(delivery.letters));
    TakeTurns();
    // Once closed, no deadline counts any more: the workers' silence would be ours.
    if (delivery.closed) {
      timers_.clear();
      if (!std::exchange(is_closed, true)) KeepMeasurements();
      if (IsQuiet()) return;
    } else {
      FireTimers(SteadyNow());
      lines_.Tell(SteadyNow());
    }
  }
}

void JobLoop::KeepMeasurements() {
  for (const auto& [key, owned] : jobs_) {
    if (owned->runner != nullptr && !owned->runner->IsGone()) owned->runner->KeepAll();
  }
}

bool JobLoop::IsQuiet() const {
  return std::all_of(jobs_.begin(), jobs_.end(), [](const OwnedJobs::value_type& entry) {
    const OwnedJob& owned = *entry.second;
    return owned.runner != nullptr && owned.waiting.empty() && !owned.runner->HasUnfinishedSteps();
  });
}

void JobLoop::AcceptAll(std::vector<Mailbox::Letter> letters) {
  for (Mailbox::Letter& letter : letters) {
    OwnedJob* owned = JobFor(letter);
    if (owned == nullptr) continue;
    owned->waiting.push_back({std::move(letter.event), std::move(letter.charge), letter.of_cluster});
    turns_.Add(letter.job);
  }
}

void JobLoop::TakeTurns() {
  for (size_t left = turns_.tenants(); left > 0; --left) {
    const JobKey key = turns_.Next();
    // It may have been dropped meanwhile.
    const auto found = jobs_.find(key);
    if (found == jobs_.end()) continue;
    const absl::Time start = SteadyNow();
    Advance(key, found->second.get());
    turns_.Charge(key.tenant, SteadyNow() - start);
  }
}

JobLoop::OwnedJob* JobLoop::JobFor(const Mailbox::Letter& letter) {
  const auto found = jobs_.find(letter.job);
  if (found != jobs_.end()) return found->second.get();
  absl::Status status;
  if (!dependencies_.directory->Knows(letter.job)) {
    status = absl::NotFoundError(absl::StrCat("tenant ", letter.job.tenant, " has no job ", letter.job.job));
    // Only a worker that joins, and its launcher, make a job; nothing else, and nobody who is refused, may leave a
    // trace in the store.
    const auto* join = std::get_if<JoinRequested>(&letter.event);
    if (join != nullptr) status = CheckJoin(join->request);
    if (const auto* claim = std::get_if<JobClaimed>(&letter.event)) status = CheckCreateJob(claim->request);
    if (status.ok()) status = AdmitByQuota(letter.job, letter.event);
    // A claim was counted in the queue.
    if (status.ok() && join != nullptr) {
      status = dependencies_.gate->TakePace(letter.job.tenant, /*is_new=*/true);
      if (!status.ok()) dependencies_.directory->Release(letter.job);
    }
  }
  const bool is_paid = !letter.of_cluster && IsPaidFor(letter.job);
  if (status.ok() && is_paid) status = AdmitRead(letter.job, MayOwe(letter.event));
  if (status.ok()) return Open(letter.job, is_paid);
  Refuse(letter.event, status);
  mailbox_.Release(letter.job, 1);
  return nullptr;
}

JobLoop::OwnedJob* JobLoop::Open(const JobKey& key, bool is_paid) {
  auto& owned = jobs_[key];
  owned = std::make_unique<OwnedJob>();
  owned->awaits_read = is_paid && !reads_.Begin(key);
  if (!owned->awaits_read) Read(key, owned.get(), is_paid);
  return owned.get();
}

bool JobLoop::IsPaidFor(const JobKey& key) const {
  // Of a job that goes on, deadlines have to run.
  return dependencies_.bytes != nullptr && dependencies_.directory->HasEnded(key);
}

absl::Status JobLoop::AdmitRead(const JobKey& key, absl::Duration may_owe) const {
  if (dependencies_.bytes->ReadsOf(key.tenant)->Wait(SteadyNow()) <= may_owe) return absl::OkStatus();
  return WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat(
          "tenant ", key.tenant, " has more than ", static_cast<double>(dependencies_.bytes->tenant_rate()) / (1 << 20),
          " MiB of ended jobs read in a second (--tenant-mib-per-s), so job ", key.job,
          ", which is not in memory, is not read; retry in ", absl::FormatDuration(kRetryWhenFull))),
      kRetryWhenFull);
}

void JobLoop::Read(const JobKey& key, OwnedJob* owned, bool is_paid) {
  const uint64_t life = ++last_life_;
  owned->life = life;
  owned->runner.reset();
  SetIdle(key, owned, false);
  timers_.erase({owned->timer, key});
  owned->timer = absl::InfiniteFuture();
  AcquireJobRows(dependencies_.store, key, [this, key, life, is_paid](absl::StatusOr<AcquiredRows> rows) {
    mailbox_.Post([this, key, life, is_paid, rows = std::move(rows)]() mutable {
      const absl::Time start = SteadyNow();
      if (is_paid && rows.ok())
        dependencies_.bytes->ReadsOf(key.tenant)->Take(static_cast<int64_t>(BytesOf(rows->rows)), start);
      // They go with it, before others come.
      OnRows(key, life, std::move(rows));
      if (is_paid) EndRead(key.tenant);
      turns_.Charge(key.tenant, SteadyNow() - start);
    });
  });
}

void JobLoop::EndRead(const std::string& tenant) {
  for (std::optional<JobKey> next = reads_.End(tenant); next.has_value(); next = reads_.End(next->tenant)) {
    const auto found = jobs_.find(*next);
    if (found == jobs_.end() || !std::exchange(found->second->awaits_read, false)) continue;
    const absl::Status status = AdmitRead(*next, MayOweFor(*found->second));
    if (status.ok()) return Read(*next, found->second.get(), /*is_paid=*/true);
    RefuseAll(*next, status);
  }
}

absl::Duration JobLoop::MayOweFor(const OwnedJob& owned) {
  absl::Duration longest;
  for (const WaitingEvent& one : owned.waiting) {
    const absl::Duration may_owe = MayOwe(one.event);
    // Those with the whole of it were admitted when they came.
    const bool is_admitted = one.IsTick() || one.of_cluster || may_owe == absl::Seconds(kPaceBurstSeconds);
    longest = std::max(longest, is_admitted ? absl::InfiniteDuration() : may_owe);
  }
  return longest;
}

void JobLoop::RefuseAll(const JobKey& key, const absl::Status& status) {
  const std::deque<WaitingEvent>& waiting = jobs_.at(key)->waiting;
  for (const WaitingEvent& one : waiting) Refuse(one.event, status);
  mailbox_.Release(key, waiting.size());
  Erase(key);
}

void JobLoop::StartPurge(const JobKey& key, uint64_t life, const AcquiredRows& rows) {
  std::vector<StoreBatch> batches = PurgeOf(key, rows.rows, SteadyNow() + WallAhead());
  for (size_t i = 0; i < batches.size(); ++i) {
    const bool is_last = i + 1 == batches.size();
    // If one fails, so do those behind it.
    dependencies_.store->Commit(key.Text(), rows.owner_revision, std::move(batches[i]),
                                [this, key, life, is_last](const absl::Status& status) {
                                  if (is_last)
                                    mailbox_.Post([this, key, life, status] { OnPurged(key, life, status); });
                                });
  }
}

void JobLoop::OnPurged(const JobKey& key, uint64_t life, const absl::Status& status) {
  OwnedJob* owned = Find(key, life);
  if (owned == nullptr) return;
  if (!status.ok()) return Drop(key, status);
  std::vector<Mailbox::Letter> letters;
  for (WaitingEvent& one : owned->waiting) {
    if (!one.IsTick()) letters.push_back({key, std::move(one.event), std::move(one.charge), one.of_cluster});
  }
  Erase(key);
  AcceptAll(std::move(letters));
}

JobLoop::OwnedJob* JobLoop::Find(const JobKey& key, uint64_t life) {
  const auto found = jobs_.find(key);
  return found != jobs_.end() && found->second->life == life ? found->second.get() : nullptr;
}

void JobLoop::OnRows(const JobKey& key, uint64_t life, absl::StatusOr<AcquiredRows> rows) {
  OwnedJob* owned = Find(key, life);
  if (owned == nullptr) return;
  const absl::Time now = SteadyNow();
  if (rows.ok() && (AreLeftOver(key, rows->rows) || (owned->is_purge && !HasRecord(key, rows->rows))))
    return StartPurge(key, life, *rows);
  absl::StatusOr<std::unique_ptr<Job>> job = rows.ok() ? MakeJob(key, *rows, now) : rows.status();
  if (std::function<void(absl::Status)> restored = std::move(owned->restored)) restored(job.status());
  if (!job.ok()) {
    Drop(key, job.status());
    return;
  }
  owned->runner =
      std::make_unique<JobRunner>(key, std::move(*job), rows->owner_revision,
                                  JobRunner::Dependencies{dependencies_.store, dependencies_.output_receiver,
                                                          dependencies_.metrics, AccountOf(key), &lines_},
                                  [this, key, life](uint64_t number, absl::Status status) {
                                    mailbox_.Post([this, key, life, number, status = std::move(status)] {
                                      OnCommitted(key, life, number, status);
                                    });
                                  });
  owned->last_event = now;
  if (absl::Status room = AdmitIdle(key, owned); !room.ok()) return RefuseAll(key, room);
  // A restored job has deadlines (its reattach window) that only a Step tells.
  if (!rows->rows.empty()) owned->runner->Take(Ticked{}, now);
  Advance(key, owned);
}

std::shared_ptr<ByteAccount> JobLoop::AccountOf(const JobKey& key) const {
  return dependencies_.bytes == nullptr ? nullptr : dependencies_.bytes->Job(key.tenant, key.job);
}

absl::StatusOr<std::unique_ptr<Job>> JobLoop::MakeJob(const JobKey& key, const AcquiredRows& rows,
                                                      absl::Time now) const {
  JobOptions options = options_.job;
  options.max_workers = std::min(options.max_workers, dependencies_.tenants->QuotaOf(key.tenant).MostOfJob());
  if (const std::shared_ptr<ByteAccount> account = AccountOf(key); account != nullptr) {
    options.bytes = account;
    options.measurements = std::make_shared<MemoryBudget>(options.measurements, account, ByteKind::kMeasurements);
    options.roll_ups = std::make_shared<MemoryBudget>(options.roll_ups, account, ByteKind::kMeasurements);
    options.timelines = std::make_shared<MemoryBudget>(options.timelines, account, ByteKind::kTimelines);
  }
  if (rows.rows.empty()) return std::make_unique<Job>(key.tenant, key.job, options, options_.random_bytes);
  return Job::Restore(key.tenant, key.job, options, options_.random_bytes, rows.rows, now, WallAhead());
}

void JobLoop::OnCommitted(const JobKey& key, uint64_t life, uint64_t number, const absl::Status& status) {
  OwnedJob* owned = Find(key, life);
  if (owned == nullptr) return;
  if (!status.ok()) {
    Drop(key, status);
    return;
  }
  owned->runner->OnCommitted(number);
  // Its events have their turn like others', however many commits end together.
  if (!owned->waiting.empty()) turns_.Add(key);
  Settle(key, owned);
}

void JobLoop::Advance(const JobKey& key, OwnedJob* owned) {
  if (owned->runner == nullptr) return;
  const absl::Time now = SteadyNow();
  size_t taken = 0;
  size_t ticks = 0;
  while (!owned->waiting.empty() && !owned->runner->IsGone() && owned->runner->CanTake() &&
         (taken == 0 || SteadyNow() - now < Turns::kTurn)) {
    const WaitingEvent one = std::move(owned->waiting.front());
    owned->waiting.pop_front();
    if (one.IsTick()) {
      ++ticks;
      owned->tick_waits = false;
    }
    Feed(key, owned, one.event);
    ++taken;
  }
  if (taken > ticks) {
    owned->last_event = now;
    mailbox_.Release(key, taken - ticks);
  }
  if (Settle(key, owned)) return;
  // A job that can take nothing now goes on when a commit has ended.
  if (!owned->waiting.empty() && owned->runner->CanTake()) turns_.Add(key);
}

bool JobLoop::Settle(const JobKey& key, OwnedJob* owned) {
  if (owned->runner->IsGone()) {
    dependencies_.metrics->ReleaseJob(key);
    dependencies_.directory->Forget(key);
    owned->is_purge = true;
    Read(key, owned);
    return true;
  }
  const v1::JobSummary summary = owned->runner->Summary();
  if (!IsActive(summary.state())) dependencies_.metrics->ReleaseJob(key);
  // A launch that has claimed a job keeps the room that it was given for it.
  dependencies_.directory->Update(key, summary, owned->runner->IsClaimed());
  SetTimer(key, owned);
  return false;
}

void JobLoop::Feed(const JobKey& key, OwnedJob* owned, const Event& event) {
  if (absl::Status status = AdmitByQuota(key, event); !status.ok()) {
    Refuse(event, status);
    return;
  }
  owned->runner->Take(event, SteadyNow());
}

absl::Status JobLoop::CheckParent(const JobKey& key, const JoinRequested& event) const {
  if (event.part_of.empty()) return absl::OkStatus();
  const std::optional<v1::JobSummary> parent = dependencies_.directory->Find({key.tenant, event.part_of});
  if (!parent.has_value() || parent->launched_unix_ms() <= event.launch.since_unix_ms()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("the worker's credential is of an earlier run of job ", event.part_of,
                                                  " than the last: it forms no job ", key.job));
}

absl::Status JobLoop::AdmitByQuota(const JobKey& key, const Event& event) {
  if (const auto* claim = std::get_if<JobClaimed>(&event))
    return dependencies_.gate->Admit(key, claim->request.most_workers());
  if (std::holds_alternative<BeginCheckpointRequested>(event))
    return dependencies_.tenants->CheckStore(key.tenant, absl::StrCat("a checkpoint of job ", key.job));
  const auto* join = std::get_if<JoinRequested>(&event);
  if (join == nullptr) return absl::OkStatus();
  if (absl::Status status = CheckParent(key, *join); !status.ok()) return status;
  const v1::JoinRequest& request = join->request;
  return dependencies_.gate->Admit(key, request.has_elastic() ? request.elastic().max_size() : request.wanted_size());
}

void JobLoop::Drop(const JobKey& key, const absl::Status& status) {
  const auto found = jobs_.find(key);
  SetIdle(key, found->second.get(), false);
  const std::unique_ptr<OwnedJob> owned = std::move(found->second);
  jobs_.erase(found);
  timers_.erase({owned->timer, key});
  const absl::Status told = EndOfDroppedJob(key, status);
  if (lines_.Admit(key.tenant, SteadyNow()))
    spdlog::default_logger_raw()->clone(key.Text())->error("dropped from memory: {}", std::string(status.message()));
  dependencies_.metrics->CountStoreError();
  dependencies_.directory->Release(key);
  if (owned->runner != nullptr) owned->runner->Abandon(told);
  size_t refused = 0;
  for (const WaitingEvent& one : owned->waiting) {
    if (one.IsTick()) continue;
    Refuse(one.event, told);
    ++refused;
  }
  mailbox_.Release(key, refused);
}

absl::Status JobLoop::AdmitIdle(const JobKey& key, OwnedJob* owned) {
  if (dependencies_.bytes == nullptr || !owned->runner->IsIdle()) return absl::OkStatus();
  owned->idle_charge = ByteCharge(AccountOf(key), ByteKind::kReports);
  while (!HasRoomForIdle(key) && DropLongestIdle(key.tenant, key)) continue;
  const int64_t bytes = owned->runner->SpaceUsed();
  absl::Status room = owned->idle_charge.Grow(bytes, ByteClass::kObserver);
  while (!room.ok() && DropLongestIdle(key.tenant, key)) room = owned->idle_charge.Grow(bytes, ByteClass::kObserver);
  const bool is_for_looks = !owned->waiting.empty() && MayOweFor(*owned) == absl::ZeroDuration();
  if (room.ok() || is_for_looks) return room;
  owned->idle_charge.Resize(bytes);
  return absl::OkStatus();
}

void JobLoop::SetIdle(const JobKey& key, OwnedJob* owned, bool is_idle) {
  if (owned->idle_since != absl::InfiniteFuture()) idle_[key.tenant].erase({owned->idle_since, key});
  if (!is_idle) {
    if (owned->idle_since != absl::InfiniteFuture() && idle_[key.tenant].empty()) idle_.erase(key.tenant);
    owned->idle_since = absl::InfiniteFuture();
    owned->idle_charge.Release();
    return;
  }
  owned->idle_since = owned->last_event;
  idle_[key.tenant].insert({owned->idle_since, key});
  const std::shared_ptr<ByteAccount> account = AccountOf(key);
  if (account != nullptr && owned->idle_charge.bytes() == 0) {
    owned->idle_charge = ByteCharge(account, ByteKind::kReports);
    owned->idle_charge.Resize(owned->runner->SpaceUsed());
  }
  while ((idle_[key.tenant].size() > kMostIdle || !HasRoomForIdle(key)) && DropLongestIdle(key.tenant, key)) continue;
}

bool JobLoop::HasRoomForIdle(const JobKey& key) const {
  if (dependencies_.bytes == nullptr) return true;
  const std::shared_ptr<ByteAccount> tenant = dependencies_.bytes->Tenant(key.tenant);
  const auto is_full = [&tenant](BytePool pool) {
    return tenant->held(pool) > ShareOf(ByteClass::kObserver, tenant->limit(pool)) || tenant->IsOver(pool);
  };
  return !is_full(BytePool::kKept) && !is_full(BytePool::kCatalogues);
}

bool JobLoop::DropLongestIdle(const std::string& tenant, const JobKey& but) {
  const auto idle = idle_.find(tenant);
  if (idle == idle_.end()) return false;
  for (const auto& [since, key] : idle->second) {
    if (key == but || !jobs_.at(key)->waiting.empty()) continue;
    Erase(JobKey(key));
    return true;
  }
  return false;
}

void JobLoop::Erase(const JobKey& key) {
  const auto found = jobs_.find(key);
  SetIdle(key, found->second.get(), false);
  timers_.erase({found->second->timer, key});
  jobs_.erase(found);
}

void JobLoop::SetTimer(const JobKey& key, OwnedJob* owned) {
  // Behind a full queue of commits a tick has to wait; the next completion comes here again.
  const bool can_tick = owned->runner->CanTake() && !owned->tick_waits;
  absl::Time timer = can_tick ? owned->runner->next_tick() : absl::InfiniteFuture();
  // A tick that is due already still lets other jobs have their turn.
  if (timer != absl::InfiniteFuture()) timer = std::max(timer, SteadyNow() + absl::Milliseconds(1));
  const bool is_idle = timer == absl::InfiniteFuture() && owned->waiting.empty() && owned->runner->IsIdle();
  const bool is_nothing = is_idle && owned->runner->Summary().created_unix_ms() == 0 && !owned->runner->IsClaimed();
  SetIdle(key, owned, is_idle && !is_nothing);
  if (is_idle) {
    const bool goes = is_nothing || !HasRoomForIdle(key);
    timer = owned->last_event + (goes ? absl::ZeroDuration() : options_.idle_linger);
  }
  if (timer == owned->timer) return;
  timers_.erase({owned->timer, key});
  owned->timer = timer;
  if (timer != absl::InfiniteFuture()) timers_.insert({timer, key});
}

void JobLoop::FireTimers(absl::Time now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const JobKey key = timers_.begin()->second;
    timers_.erase(timers_.begin());
    OwnedJob* owned = jobs_.find(key)->second.get();
    owned->timer = absl::InfiniteFuture();
    if (owned->runner->next_tick() <= now) {
      // Behind the events that came before, so that no rank is silent whose word waits here.
      owned->waiting.push_back({Ticked{}, {}});
      owned->tick_waits = true;
      turns_.Add(key);
    } else if (!owned->waiting.empty()) {
      // It has its turn yet, which sets the timer again.
      turns_.Add(key);
    } else if (owned->runner->Summary().created_unix_ms() == 0) {
      // Nothing has come of it, and nothing is to remain.
      owned->is_purge = true;
      Read(key, owned);
    } else {
      Erase(key);
    }
  }
}

void JobLoop::Refuse(const Event& event, const absl::Status& status) {
  if (std::optional<Output> refusal = Refusal(event, status))
    dependencies_.output_receiver->Deliver(*std::move(refusal));
}

}  // namespace farandole
