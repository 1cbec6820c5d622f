// The part of CoordinatorLink that follows the coordinator's messages and the clock, on the control thread.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log_record.h"
#include "worker/member/coordinator_link.h"

namespace farandole {
namespace {

// A host's first live rank with a stream speaks for all of its ranks; a rank whose beat stands still for so many ticks
// is not counted as live. Another has spoken after one tick more, long before the rest of the host is silent.
constexpr double kMostBeatTicks = 1.5;

v1::WorkerMessage MessageOf(const v1::PeerLost& lost) {
  v1::WorkerMessage message;
  *message.mutable_peer_lost() = lost;
  return message;
}

}  // namespace

v1::Hello CoordinatorLink::MakeHello() const {
  std::lock_guard<std::mutex> lock(mutex_);
  v1::Hello hello;
  hello.set_job(job_);
  hello.set_incarnation(incarnation_);
  hello.set_secret(secret_);
  if (!has_epoch_) return hello;
  hello.set_epoch(epoch_.number());
  if (engine_ == nullptr) return hello;
  for (const CoordinatorAnswers::SlotName& slot : engine_->table().answers().Slots()) {
    v1::SlotAssigned* row = hello.add_slots();
    row->set_epoch(epoch_.number());
    row->set_name(slot.name);
    row->set_group(slot.group);
    row->set_slot(slot.slot);
  }
  for (const Disagreement& known : engine_->table().answers().Told()) {
    v1::Mismatch* told = hello.add_told();
    told->set_epoch(epoch_.number());
    told->set_name(known.name);
    told->set_group(known.group);
    told->set_sentence(known.sentence);
    told->set_disputed_slot(known.disputed_slot);
    told->set_attempt(known.attempt);
    told->set_next_ordinal(known.next_ordinal);
    told->set_joins(known.joins);
  }
  for (const v1::GroupAssigned& refused : group_requests_.refused()) *hello.add_refused() = refused;
  for (const auto& [number, ranks] : engine_->table().answers().Groups()) {
    v1::Group* group = hello.add_groups();
    group->set_number(number);
    group->mutable_ranks()->Add(ranks.begin(), ranks.end());
  }
  return hello;
}

void CoordinatorLink::OnAttached() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (engine_ != nullptr) engine_->table().answers().AskAgain();
  if (reports_ != nullptr) reports_->OnAttached();
  for (const auto& request : group_requests_.pending()) SendGroupRequest(request->request);
  if (departing_.has_value()) SendDeparting();
  for (const v1::PeerLost& lost : lost_) conversation_->Send(MessageOf(lost));
}

void CoordinatorLink::OnEnded(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (ended_.ok()) {
    ended_ = status.ok() ? absl::AbortedError("the coordinator closed the conversation") : status;
    // This worker itself was silent for too long. The epoch is over for it as for its peers.
    if (absl::IsDeadlineExceeded(status)) ended_ = absl::AbortedError(status.message());
  }
  if (course_ == Course::kRuns) course_ = Course::kGoesOn;
  if (engine_ != nullptr) engine_->Abort(ended_);
  changed_.notify_all();
}

void CoordinatorLink::OnMessage(const v1::CoordinatorMessage& message) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (message.has_epoch_formed()) {
    epoch_ = message.epoch_formed();
    has_epoch_ = true;
    for (int rank = 0; rank < epoch_.members_size(); ++rank) {
      if (epoch_.members(rank).incarnation() == incarnation_) rank_ = rank;
    }
    changed_.notify_all();
  } else if (message.has_epoch_ended()) {
    OnEpochEnded(message.epoch_ended());
  } else if (message.has_change_wanted()) {
    const v1::ChangeWanted& wanted = message.change_wanted();
    if (wanted.epoch() == epoch_.number() && wanted.serial() > change_wanted_.serial()) change_wanted_ = wanted;
  } else if (message.has_checkpoint_wanted()) {
    if (message.checkpoint_wanted().epoch() == epoch_.number()) checkpoint_wish_.Take(message.checkpoint_wanted());
  } else if (message.has_waiting()) {
    // The first time it is no news; from the second time on a rank is late.
    if (speaks_ && waited_before_) log_.Write(LogLevel::kInfo, rank_, message.waiting().sentence());
    waited_before_ = true;
  } else if (engine_ == nullptr) {
    early_.push_back(message);
  } else {
    Deliver(message);
  }
}

void CoordinatorLink::OnEpochEnded(const v1::EpochEnded& ended) {
  // Epoch 0: none was formed, as not all workers came in time.
  const bool was_formed = ended.epoch() != 0;
  const bool is_over = ended.job_ended() || !was_formed;
  // A worker that waits for the next epoch goes on waiting.
  if (has_epoch_ ? ended.epoch() < epoch_.number() : !is_over) return;
  if (ended_.ok()) {
    absl::StatusCode code = was_formed ? absl::StatusCode::kAborted : absl::StatusCode::kDeadlineExceeded;
    if (ended.job_finished() && !has_epoch_) code = absl::StatusCode::kCancelled;
    ended_ = absl::Status(code, ended.reason());
    lost_ranks_.assign(ended.lost_ranks().begin(), ended.lost_ranks().end());
  }
  course_ = Course::kGoesOn;
  if (is_over) course_ = ended.job_finished() ? Course::kFinished : Course::kFailed;
  if (engine_ != nullptr) engine_->Abort(ended_);
  changed_.notify_all();
}

void CoordinatorLink::Deliver(const v1::CoordinatorMessage& message) {
  CoordinatorAnswers& answers = engine_->table().answers();
  if (message.has_slot_assigned()) {
    const v1::SlotAssigned& assigned = message.slot_assigned();
    answers.OnSlotAssigned(assigned.name(), assigned.group(), assigned.slot());
  } else if (message.has_mismatch()) {
    const v1::Mismatch& mismatch = message.mismatch();
    answers.OnMismatch({mismatch.name(), mismatch.group(), mismatch.sentence(), mismatch.disputed_slot(),
                        mismatch.attempt(), mismatch.next_ordinal(), mismatch.joins()});
  } else if (message.has_group_assigned()) {
    OnGroupAssigned(message.group_assigned());
  } else if (message.has_stall_notice()) {
    const std::string& sentence = message.stall_notice().sentence();
    stalls_.SetCause(sentence);
    if (rank_ == 0) log_.Write(LogLevel::kWarning, rank_, sentence);
  } else if (message.has_stall_inquiry()) {
    SendStallReport(message.stall_inquiry().inquiry());
  } else {
    reports_->Take(message);
  }
  engine_->OnTableChanged();
}

void CoordinatorLink::OnGroupAssigned(const v1::GroupAssigned& assigned) {
  group_messages_.fetch_add(1);
  if (!group_requests_.Answer(assigned)) return;
  const v1::Group& group = assigned.group();
  if (assigned.error().empty() && group.ranks().empty()) {
    engine_->table().answers().OnGroupRemoved(group.number());
  } else if (assigned.error().empty()) {
    engine_->table().answers().OnGroupAdded(group.number(),
                                            std::vector<int>(group.ranks().begin(), group.ranks().end()));
  }
  changed_.notify_all();
}

void CoordinatorLink::OnTick() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!has_epoch_) return;
  ++beat_;
  // Also between two epochs: the host's other ranks may still be in the old one.
  if (engine_ == nullptr || course_ != Course::kRuns) return SendOwnPulse();
  const int64_t now = conversation_->NowNs();
  measures_.State(channel_->record(rank_), {now, engine_->WaitedNs(now), epoch_.number()});
  channel_->Beat({beat_, now, engine_->counters().batches, conversation_->IsAttached()});
  SendHeartbeat(now);
  reports_->OnTick(beat_);
  if (verdict_ns_ != 0 && now > verdict_ns_) engine_->Abort(verdict_);
  pauses_.OnTick(now);
  WatchForStall(now);
  WatchGpu(now);
}

void CoordinatorLink::WatchForStall(int64_t now_ns) {
  const int64_t age_ns = pauses_.Ran(engine_->table().OldestPendingAge(now_ns), now_ns);
  if (stalls_.IsReportDue(age_ns, now_ns)) SendStallReport(0);
  if (const absl::Status status = stalls_.CheckLimit(age_ns, who_[rank_]); !status.ok()) engine_->Abort(status);
}

void CoordinatorLink::WatchGpu(int64_t now_ns) {
  if (std::optional<v1::GpuStatus> status = gpu_health_.TakeStatus(now_ns); status.has_value()) {
    v1::WorkerMessage message;
    *message.mutable_gpu_status() = *std::move(status);
    message.mutable_gpu_status()->set_epoch(epoch_.number());
    conversation_->Send(std::move(message));
  }
  if (const absl::Status status = gpu_health_.Look(now_ns, pauses_); !status.ok()) engine_->Abort(status);
}

// While the ranks connect, each speaks for itself.
void CoordinatorLink::SendOwnPulse() {
  if (conversation_ == nullptr || rank_ < 0) return;
  v1::WorkerMessage message;
  message.mutable_heartbeat()->set_epoch(epoch_.number());
  v1::Pulse* pulse = message.mutable_heartbeat()->add_pulses();
  pulse->set_rank(static_cast<uint32_t>(rank_));
  pulse->set_beat(beat_);
  conversation_->Send(std::move(message));
}

void CoordinatorLink::SendHeartbeat(int64_t now_ns) {
  v1::WorkerMessage message;
  v1::Heartbeat* heartbeat = message.mutable_heartbeat();
  heartbeat->set_epoch(epoch_.number());
  const int64_t most_age_ns = absl::ToInt64Nanoseconds(kMostBeatTicks * conversation_->tick_interval());
  const auto see = [this](int rank) { return HostPulses::Sight{channel_->ReadPulse(rank), channel_->HasLeft(rank)}; };
  const bool speaks = pulses_.Look(see, now_ns, most_age_ns, heartbeat);
  measures_.Look([this](int rank) { return channel_->record(rank); }, speaks, engine_->arrivals(), now_ns,
                 heartbeat->mutable_measures());
  if (speaks) conversation_->Send(std::move(message));
}

void CoordinatorLink::SendStallReport(uint64_t inquiry) {
  v1::WorkerMessage message;
  v1::StallReport* report = message.mutable_stall_report();
  *report = engine_->table().ReadActivity(conversation_->NowNs());
  report->set_epoch(epoch_.number());
  report->set_inquiry(inquiry);
  report->set_group_requests(static_cast<uint32_t>(group_requests_.pending().size()));
  conversation_->Send(std::move(message));
}

}  // namespace farandole
