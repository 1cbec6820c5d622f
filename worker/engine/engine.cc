#include "worker/engine/engine.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/quiet_thread.h"
#include "worker/core/relax.h"

namespace farandole {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
// Every sleep is bounded, so that a lost wake-up would cost time, not a hang.
constexpr int64_t kLongestSleepNs = 100'000'000;
// How long a rank of another host that leaves may wait for rank 0, where that is busy with something else.
constexpr absl::Duration kRelayInterval = absl::Milliseconds(50);

// A driver that always finds something to do looks at the clock once in so many passes, of 100 us at most.
constexpr int kPassesBetweenLooks = 64;

// A rank that meets others all the time looks at the log, and rank 0 at others' posts, after so many times.
constexpr uint32_t kMeetingsBetweenLooks = 64;

int64_t DeadlineAfter(int64_t start_ns, int64_t limit_ns) {
  return limit_ns < 0 || limit_ns > kForever - start_ns ? kForever : start_ns + limit_ns;
}

}  // namespace

Engine::Engine(EngineOptions options, ReadyChannel* channel, CollectiveStarter start,
               std::function<void(const absl::Status&)> stop_transport, ControlLink* link)
    : options_(std::move(options)),
      channel_(channel),
      rendezvous_(channel->rendezvous()),
      stop_transport_(std::move(stop_transport)),
      meter_(channel->record(options_.rank)),
      table_(TableOptions(options_, channel, link, &meter_)),
      bell_(channel->doorbell()),
      relays_(channel->Relays()),
      orderer_(options_.size, OrdererOptions(options_)),
      arrivals_(options_.rank == 0 ? std::make_unique<LastArrivals>(options_.size) : nullptr),
      cpu_move_(options_.has_own_core, channel),
      batch_(options_.rank, options_.who.empty() ? "" : options_.who[options_.rank], std::move(start), &table_,
             &meter_),
      cork_(options_.fusion_bytes) {
  bell_.SetAttention(Attention::kUnconcerned);
  if (options_.has_data_thread) data_thread_ = QuietThread([this] { DataThread(); });
}

Engine::~Engine() {
  stopping_.store(true);
  Abort(absl::AbortedError("the worker is shutting down"));
  bell_.RingAll();
  if (data_thread_.joinable()) data_thread_.join();
  std::lock_guard<std::mutex> role(role_);
  FailAll();
}

absl::StatusOr<int64_t> Engine::Submit(const Request& request) {
  absl::StatusOr<int64_t> handle = table_.Submit(request);
  if (handle.ok()) Kick();
  return handle;
}

void Engine::Kick() {
  if (options_.rank != 0 && !relays_ && !table_.HasUnposted() && !MustMeet()) return;
  // Rank 0 orders what its own submission completes; the holder of the role sees to it, if it is awake.
  if (role_.try_lock()) {
    bell_.SetAttention(Attention::kPolling);
    looked_ns_ = std::max(looked_ns_, table_.last_submitted_ns());
    if (options_.rank == 0) OrderPass();
    if (MustMeet()) DeclineOffers();
    LeaveRole();
  } else {
    bell_.Ring();
  }
}

void Engine::AnnounceMore() {
  if (options_.rank != 0 || cork_.is_in()) return;
  cork_.Begin();
  // The data thread sleeps for no longer than batches may wait from now on.
  bell_.RingAll();
}

void Engine::EndCork() {
  // Another thread may sleep with the role.
  if (cork_.End()) bell_.Ring();
}

void Engine::OnTableChanged() {
  Kick();
  bell_.Ring();
}

absl::StatusOr<bool> Engine::SubmitAndWait(const Request& request, int64_t limit_ns, bool release, int64_t* handle) {
  *handle = 0;
  EndCork();
  if (request.ready.is_captured() || !role_.try_lock()) {
    absl::StatusOr<int64_t> submitted = Submit(request);
    if (!submitted.ok()) return submitted.status();
    *handle = *submitted;
    return Wait(*handle, limit_ns, release);
  }
  bell_.BeginPolling();
  absl::StatusOr<Submission*> submitted = table_.SubmitAndBeginWaiting(request);
  if (!submitted.ok()) {
    LeaveRole();
    return submitted.status();
  }
  return DriveAndLeave(*submitted, limit_ns, release, handle);
}

absl::StatusOr<int64_t> Engine::SubmitAndGlance(const Request& request) {
  if (table_.pending() > 0 || cork_.is_in() || !glance_.IsWanted(request)) return Submit(request);
  int64_t handle = 0;
  const absl::StatusOr<bool> complete = SubmitAndWait(request, Glance::kNs, /*release=*/false, &handle);
  if (handle == 0) return complete.status();
  glance_.Note(!complete.ok() || *complete);
  return handle;
}

bool Engine::RepeatAndWait(const NamedAllreduce& call, int64_t limit_ns, int64_t* handle,
                           absl::StatusOr<bool>* complete) {
  if (!table_.MayRepeat(call) || !role_.try_lock()) return false;
  bell_.BeginPolling();
  Submission* const submission = table_.RepeatAndBeginWaiting(call);
  if (submission == nullptr) {
    LeaveRole();
    return false;
  }
  EndCork();
  *complete = DriveAndLeave(submission, limit_ns, /*release=*/true, handle);
  return true;
}

absl::StatusOr<bool> Engine::DriveAndLeave(Submission* submission, int64_t limit_ns, bool release, int64_t* handle) {
  *handle = submission->handle;
  const int64_t started = submission->submitted_ns;
  looked_ns_ = started;
  RankMeter::Wait wait(&meter_, started);
  driven_ = release ? submission : nullptr;
  const auto is_met = [this, release] { return release && driven_ == nullptr; };
  Drive([&] { return is_met() || submission->complete.load(); }, DeadlineAfter(started, limit_ns));
  const bool was_met = is_met();
  driven_ = nullptr;
  const bool is_short = was_met && looked_ns_ == started;
  const int weight = is_short ? sampler_.Next() : 0;
  LeaveRole();
  if (is_short) {
    wait.EndSampled(weight, weight > 0 ? options_.clock() : started);
    return true;
  }
  wait.End(was_met || submission->complete.load(), options_.clock());
  if (was_met) return true;
  return table_.DoneWaiting(submission, release);
}

template <typename Done>
void Engine::Await(const Done& done, int64_t limit_ns) {
  const int64_t started = MonotonicNs();
  const int64_t deadline = DeadlineAfter(started, limit_ns);
  RankMeter::Wait wait(&meter_, started);
  for (int64_t now = started; !done() && now < deadline; now = MonotonicNs()) {
    if (role_.try_lock()) {
      bell_.SetAttention(Attention::kPolling);
      Drive(done, deadline);
      LeaveRole();
    } else {
      table_.notice().Wait(done, std::min(deadline - now, kLongestSleepNs));
    }
  }
  wait.End(done(), MonotonicNs());
}

uint64_t Engine::WaitForCompletion(uint64_t seen, int64_t limit_ns) {
  if (limit_ns != 0) EndCork();
  auto done = [this, seen] { return table_.completions() != seen; };
  if (!done() && limit_ns != 0) Await(done, limit_ns);
  return table_.completions();
}

absl::StatusOr<bool> Engine::Wait(int64_t handle, int64_t limit_ns, bool release) {
  if (limit_ns != 0) EndCork();
  Submission* submission = table_.BeginWaiting(handle);
  if (submission == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("there is no handle ", handle, "; was it released?"));
  // One thread at a time captures: a waiter for captured work goes on when none of it is on its way.
  const bool is_captured = submission->ready.is_captured();
  if (is_captured && table_.EnterCaptured()) Kick();
  auto done = [this, submission, is_captured] {
    return submission->complete.load() && (!is_captured || table_.captured() == 0);
  };
  if (!done() && limit_ns != 0) Await(done, limit_ns);
  if (!is_captured || done()) return table_.DoneWaiting(submission, release);
  table_.DoneWaiting(submission, /*release=*/false).status().IgnoreError();  // a later query finds it
  return false;
}

template <typename Done>
void Engine::Drive(const Done& done, int64_t deadline_ns) {
  bell_.StateCpu();
  int checks = 0;
  int passes = 0;
  int64_t idle_since = 0;
  while (!done()) {
    if (Pass()) {
      checks = 0;
      idle_since = 0;
      if (++passes % kPassesBetweenLooks == 0 && MonotonicNs() >= deadline_ns) return;
      continue;
    }
    if (++checks < options_.checks_before_yield) {
      Relax();
      continue;
    }
    const int64_t now = MonotonicNs();
    looked_ns_ = now;
    if (arrivals_ != nullptr && table_.has_offer()) arrivals_->OnMissing(rendezvous_->OnlyMissing(), now);
    if (now >= deadline_ns) return;
    if (idle_since == 0) idle_since = now;
    const bool moves = cpu_move_.IsWanted(now);
    if (!moves && now - idle_since < options_.yield_ns) {
      sched_yield();
      continue;
    }
    const uint32_t ticket = bell_.Ticket();
    bell_.SetAttention(Attention::kDriverAsleep);
    if (!Pass() && !done() && channel_->Rest()) {
      const int64_t longest = cork_.is_in() ? Cork::kBetweenLooksNs : kLongestSleepNs;
      bell_.Sleep(ticket, Attention::kDriverAsleep, absl::Nanoseconds(std::min(deadline_ns - now, longest)));
    }
    bell_.SetAttention(Attention::kPolling);
    bell_.StateCpu();
    looked_ns_ = MonotonicNs();
    if (moves) cpu_move_.Check();
    checks = 0;
    idle_since = 0;
  }
}

absl::Status Engine::Leave(const std::function<bool()>& interrupted) {
  if (aborted_.load()) return absl::OkStatus();
  EndCork();
  if (!leave_posted_.exchange(true)) table_.PostLeave();
  auto done = [this] { return failed_all_.load() || (has_left_.load() && !channel_->IsNeeded()); };
  while (!done()) {
    if (interrupted && interrupted()) return absl::AbortedError("leaving the job was interrupted");
    // Another holder of the role works for this submission too, and gives the role back.
    std::unique_lock<std::mutex> role(role_, std::try_to_lock);
    if (!role.owns_lock()) {
      bell_.Ring();
      table_.notice().Wait(done, kLongestSleepNs);
      continue;
    }
    role.release();
    bell_.SetAttention(Attention::kPolling);
    Drive(done, MonotonicNs() + kLongestSleepNs);
    LeaveRole();
  }
  return absl::OkStatus();
}

void Engine::DataThread() {
  for (;;) {
    // Before anything is looked at, so that a ring for what changes afterwards ends the sleep.
    const uint32_t ticket = bell_.Ticket();
    if (stopping_.load()) return;
    if (role_.try_lock()) {
      bell_.SetAttention(Attention::kPolling);
      looked_ns_ = MonotonicNs();
      // Within a batch the data thread waits as any driver does; between batches it goes to sleep at once.
      Drive([this] { return !batch_.is_running() && !Pass(); }, kForever);
      LeaveRole();
    }
    bell_.Sleep(ticket, Attention::kDataThreadAsleep, LongestIdleSleep());
  }
}

absl::Duration Engine::LongestIdleSleep() const {
  if (cork_.is_in()) return absl::Nanoseconds(Cork::kBetweenLooksNs);
  return relays_ ? kRelayInterval : absl::Seconds(1);
}

void Engine::Attend() {
  if (!role_.try_lock()) return;
  bell_.SetAttention(Attention::kPolling);
  looked_ns_ = options_.clock();
  while (Pass()) {
  }
  LeaveRole();
}

Attention Engine::IdleAttention() const {
  const bool concerned = table_.pending() > 0 || attends_always_.load();
  return concerned ? Attention::kDataThreadAsleep : Attention::kUnconcerned;
}

bool Engine::HasWork() const {
  if (aborted_.load()) return !failed_all_.load();
  return batch_.is_running() || (ReadsOn() && channel_->HasNews()) || table_.HasOrdererNews() || MustMeet();
}

bool Engine::MustMeet() const {
  if (rendezvous_ == nullptr) return false;
  if (table_.has_offer()) return rendezvous_->Look() != Rendezvous::Outcome::kOpen;
  return table_.pending() > 0 && !rendezvous_->has_closed() && rendezvous_->IsAsked();
}

void Engine::LeaveRole() {
  if (unappended_.has_value() || orderer_.HasReady()) {
    // Entries held back while a batch ran go into the log, where the code below sees them. Entries that did not fit
    // into a full log are tried once more with the bell set: a rank that makes room is seen now or rings later.
    bell_.SetAttention(IdleAttention());
    OrderPass();
  }
  bell_.SetAttention(IdleAttention());
  const bool serves = relays_ && channel_->ServesOthers();
  // As above: retry the call that could not be passed on; later ones ring the bell. If no thread waits for it, that
  // would wake a thread for each small collective, before the rank itself comes back for the next.
  if (relays_ && (serves || table_.pending() > 0 || attends_always_.load()) && !aborted_.load()) {
    RelayPass();
    if (!aborted_.load()) channel_->Rest();
  }
  role_.unlock();
  table_.notice().Notify();
  // A ring for room in the channel that came before the bell's new state woke no thread.
  if (table_.HasUnposted()) table_.FlushPosts();
  // Work may have come between the last pass and the bell's new state, or a submission found the role taken: the
  // data thread takes it up.
  if (table_.pending() > 0) bell_.Concern();
  const bool relevant =
      table_.pending() > 0 || attends_always_.load() || serves || aborted_.load() || table_.HasOrdererNews();
  if (relevant && HasWork()) bell_.RingAll();
}

bool Engine::Pass() {
  if (aborted_.load()) {
    if (failed_all_.load()) return false;
    // A rank that shuts down has left before, or its host's other ranks and the coordinator see its end.
    if (relays_ && !stopping_.load()) channel_->End(table_.ended());
    FailAll();
    return true;
  }
  bool moved = false;
  if (table_.has_offer() && MeetPass()) {
    if (++met_ % kMeetingsBetweenLooks != 0) return true;
    moved = true;
  }
  if (relays_ && RelayPass()) moved = true;
  if (table_.HasUnposted() && table_.FlushPosts()) moved = true;
  if (options_.rank == 0 && OrderPass()) moved = true;
  if (batch_.is_running()) {
    const absl::StatusOr<bool> advanced = batch_.Advance(entry_);
    if (advanced.ok()) return moved || *advanced;
    // The engine's own reason, if there is one, says more than the transport's.
    Abort(advanced.status());
    return true;
  }
  if (ReadLog() || moved) return true;
  // Pending submissions are not ordered yet, and may depend on ranks that wait for this rank's answer.
  return MustMeet() && DeclineOffers();
}

bool Engine::DeclineOffers() { return !table_.has_offer() && table_.log().DeclineOffers(); }

bool Engine::MeetPass() {
  const Rendezvous::Outcome outcome = rendezvous_->Look();
  if (outcome == Rendezvous::Outcome::kOpen) return false;
  if (outcome == Rendezvous::Outcome::kDeclined) {
    // The log accounts for the rank that comes last in it.
    if (arrivals_ != nullptr) arrivals_->OnMissing(-1, looked_ns_);
    table_.log().PostOffered();
    return true;
  }
  uint32_t slot = 0;
  const int64_t bytes = table_.log().CompleteOffered(&slot, looked_ns_, &driven_);
  if (bytes < 0) return true;
  if (options_.rank == 0) {
    orderer_.OnUsed(slot);
    arrivals_->OnMet(looked_ns_);
    arrivals_->OnStep(meter_.steps());
  }
  CountSmall(bytes);
  return true;
}

void Engine::ApplyNews() {
  for (OrdererNews& news : table_.TakeNews()) {
    if (auto* slot = std::get_if<SlotAdded>(&news)) {
      orderer_.AddSlot(slot->slot, slot->group);
    } else if (auto* group = std::get_if<GroupAdded>(&news)) {
      orderer_.AddGroup(group->group, std::move(group->ranks));
    } else {
      orderer_.RemoveGroup(std::get<GroupRemoved>(news).group);
    }
  }
  attends_always_.store(orderer_.HasForeignGroup());
}

bool Engine::OrderPass() {
  bool moved = false;
  if (table_.HasOrdererNews()) {
    ApplyNews();
    moved = true;
  }
  Post post;
  // Its own posts last: those that others have made meanwhile came before.
  for (int turn = 1; turn <= options_.size; ++turn) {
    const int rank = turn == options_.size ? 0 : turn;
    while (channel_->ReadPost(rank, &post)) {
      const bool completes = orderer_.OnPost(rank, post);
      if (post.kind == Post::Kind::kSubmit) arrivals_->OnPost(rank, completes, looked_ns_);
      moved = true;
    }
  }
  if (moved) arrivals_->OnStep(meter_.steps());
  for (;;) {
    if (!unappended_.has_value()) {
      const bool is_free = appended_batches_ == batch_.batches();
      unappended_ = orderer_.Next(is_free && !cork_.Holds(orderer_.ready_bytes(), looked_ns_));
      if (!unappended_.has_value()) return moved;
    }
    const bool is_collective = unappended_->kind == Entry::Kind::kBatch || unappended_->kind == Entry::Kind::kInline ||
                               unappended_->kind == Entry::Kind::kDispute ||
                               unappended_->kind == Entry::Kind::kRootHasJoined;
    // Groups that were removed meanwhile are ignored; notices go to all ranks.
    const absl::Span<const int> concerned = orderer_.ranks(is_collective ? unappended_->group : 0);
    if (!channel_->TryAppend(*unappended_, concerned)) return moved;
    if (unappended_->kind == Entry::Kind::kBatch && !concerned.empty() && concerned.front() == 0) ++appended_batches_;
    unappended_.reset();
    moved = true;
  }
}

bool Engine::RelayPass() {
  const absl::StatusOr<bool> moved = channel_->Relay();
  if (moved.ok()) return *moved;
  Abort(moved.status());
  return true;
}

bool Engine::ReadLog() {
  if (!ReadsOn() || !channel_->ReadEntry(&entry_)) return false;
  switch (entry_.kind) {
    case Entry::Kind::kBatch:
      if (const absl::Status begun = batch_.Begin(entry_); !begun.ok()) Abort(begun);
      break;
    case Entry::Kind::kInline:
      OnInline(entry_);
      break;
    case Entry::Kind::kDispute:
      table_.log().OnDispute(entry_.slot, entry_.attempt,
                             entry_.counts.empty() ? 0 : static_cast<uint32_t>(entry_.counts[0]));
      break;
    case Entry::Kind::kRetire:
      table_.log().OnRetired(entry_.slot);
      break;
    case Entry::Kind::kLeft:
      OnLeft(entry_.rank);
      break;
    case Entry::Kind::kAllJoined:
      table_.log().OnAllJoined(entry_.rank);
      break;
    case Entry::Kind::kRootHasJoined:
      table_.log().OnRootHasJoined(entry_);
      break;
  }
  return true;
}

void Engine::OnInline(const Entry& entry) {
  const int64_t bytes = table_.log().CompleteInline(entry, looked_ns_);
  if (bytes < 0) return;  // of a group without this rank
  CountSmall(bytes);
}

void Engine::CountSmall(int64_t bytes) {
  small_.store(small_.load() + 1, std::memory_order_relaxed);
  small_bytes_.store(small_bytes_.load() + static_cast<uint64_t>(bytes), std::memory_order_relaxed);
}

Engine::Counters Engine::counters() const {
  const RankRecord& record = meter_.record();
  return {small_.load() + batch_.batches(), small_bytes_.load() + batch_.bytes(), batch_.arena_bytes(),
          static_cast<uint64_t>(record.batch_ns.load(std::memory_order_relaxed)),
          static_cast<uint64_t>(record.waited_ns.load(std::memory_order_relaxed))};
}

}  // namespace farandole
