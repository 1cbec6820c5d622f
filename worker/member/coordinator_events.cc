// The part of CoordinatorLink that follows the coordinator's messages and the clock, on the control thread.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/log_record.h"
#include "worker/member/coordinator_link.h"

namespace farandole {
namespace {

// A host's first live rank with a stream speaks for all of its ranks; a rank whose beat stands still for so many ticks
// is not counted as live. Another has spoken after one tick more, long before the rest of the host is silent.
constexpr double kMostBeatTicks = 1.5;
// After so long without a sample nobody knows what a GPU does.
constexpr int64_t kGpuSampleLimitNs = 20'000'000'000;
// As the coordinator bounds them (server/job/rules/bounds.cc).
constexpr size_t kMostGpuNameBytes = 96;
constexpr uint64_t kMostGpuBytes = uint64_t{1} << 44;
constexpr size_t kMostRefused = 256;

// Once something is older than `limit_ns`, and then whenever it has twice the age of the last warning, which is
// `*warned_ns`; 0: there was none.
bool IsWarningDue(int64_t age_ns, int64_t limit_ns, int64_t* warned_ns) {
  if (age_ns < *warned_ns) *warned_ns = 0;
  if (age_ns <= limit_ns || age_ns < 2 * *warned_ns) return false;
  *warned_ns = age_ns;
  return true;
}

}  // namespace

v1::Hello CoordinatorLink::MakeHello() const {
  std::lock_guard<std::mutex> lock(mutex_);
  v1::Hello hello;
  hello.set_job(job_);
  hello.set_incarnation(incarnation_);
  if (!has_epoch_) return hello;
  hello.set_epoch(epoch_.number());
  if (engine_ == nullptr) return hello;
  for (const SubmissionTable::SlotName& slot : engine_->table().Slots()) {
    v1::SlotAssigned* row = hello.add_slots();
    row->set_epoch(epoch_.number());
    row->set_name(slot.name);
    row->set_group(slot.group);
    row->set_slot(slot.slot);
  }
  for (const Disagreement& known : engine_->table().Told()) {
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
  for (const v1::GroupAssigned& refused : refused_) *hello.add_refused() = refused;
  for (const auto& [number, ranks] : engine_->table().Groups()) {
    v1::Group* group = hello.add_groups();
    group->set_number(number);
    for (int rank : ranks) group->add_ranks(static_cast<uint32_t>(rank));
  }
  return hello;
}

void CoordinatorLink::OnAttached() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (engine_ != nullptr) engine_->table().AskAgain();
  for (const auto& request : group_requests_) SendGroupRequest(request->request);
  if (departing_.has_value()) SendDeparting();
  for (const v1::PeerLost& lost : lost_) {
    v1::WorkerMessage message;
    *message.mutable_peer_lost() = lost;
    conversation_->Send(std::move(message));
  }
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
  } else if (message.has_waiting()) {
    // At once it is no news; from the second time on somebody is late.
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
  absl::StatusCode code = was_formed ? absl::StatusCode::kAborted : absl::StatusCode::kDeadlineExceeded;
  if (ended.job_finished() && !has_epoch_) code = absl::StatusCode::kCancelled;
  if (ended_.ok()) {
    ended_ = absl::Status(code, ended.reason());
    lost_ranks_.assign(ended.lost_ranks().begin(), ended.lost_ranks().end());
  }
  course_ = Course::kGoesOn;
  if (is_over) course_ = ended.job_finished() ? Course::kFinished : Course::kFailed;
  if (engine_ != nullptr) engine_->Abort(ended_);
  changed_.notify_all();
}

void CoordinatorLink::Deliver(const v1::CoordinatorMessage& message) {
  SubmissionTable& table = engine_->table();
  if (message.has_slot_assigned()) {
    const v1::SlotAssigned& assigned = message.slot_assigned();
    table.OnSlotAssigned(assigned.name(), assigned.group(), assigned.slot());
  } else if (message.has_mismatch()) {
    const v1::Mismatch& mismatch = message.mismatch();
    table.OnMismatch({mismatch.name(), mismatch.group(), mismatch.sentence(), mismatch.disputed_slot(),
                      mismatch.attempt(), mismatch.next_ordinal(), mismatch.joins()});
  } else if (message.has_group_assigned()) {
    OnGroupAssigned(message.group_assigned());
  } else if (message.has_stall_notice()) {
    stall_sentence_ = message.stall_notice().sentence();
    if (rank_ == 0) log_.Write(LogLevel::kWarning, rank_, stall_sentence_);
  } else if (message.has_stall_inquiry()) {
    SendStallReport(message.stall_inquiry().inquiry());
  }
  engine_->OnTableChanged();
}

void CoordinatorLink::OnGroupAssigned(const v1::GroupAssigned& assigned) {
  group_messages_.fetch_add(1);
  if (group_requests_.empty()) return;
  std::shared_ptr<GroupRequest> request = group_requests_.front();
  group_requests_.pop_front();
  if (assigned.error().empty()) {
    const uint32_t number = assigned.group().number();
    if (assigned.group().ranks().empty()) {
      engine_->table().OnGroupRemoved(number);
    } else {
      engine_->table().OnGroupAdded(number,
                                    std::vector<int>(assigned.group().ranks().begin(), assigned.group().ranks().end()));
    }
  }
  if (!assigned.error().empty()) {
    refused_.push_back(assigned);
    if (refused_.size() > kMostRefused) refused_.pop_front();
  }
  request->answer = assigned;
  request->answered = true;
  changed_.notify_all();
}

void CoordinatorLink::OnTick() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!has_epoch_) return;
  ++beat_;
  // Between two epochs, too: nobody knows whether the host's other ranks still are in the old one.
  if (engine_ == nullptr || course_ != Course::kRuns) return SendOwnPulse();
  const int64_t now = conversation_->NowNs();
  channel_->Beat({beat_, now, engine_->counters().batches, conversation_->IsAttached()});
  SendHeartbeat(now);
  if (verdict_ns_ != 0 && now > verdict_ns_) engine_->Abort(verdict_);
  WatchForStall(now);
  WatchGpu(now);
}

void CoordinatorLink::WatchForStall(int64_t now_ns) {
  const int64_t age_ns = engine_->table().OldestPendingAge(now_ns);
  if (age_ns > stall_warning_ns_ && now_ns - last_stall_report_ns_ > stall_warning_ns_) {
    last_stall_report_ns_ = now_ns;
    SendStallReport(0);
  }
  if (stall_limit_ns_ == 0 || age_ns <= stall_limit_ns_) return;
  engine_->Abort(absl::DeadlineExceededError(
      absl::StrCat("a tensor of ", who_[rank_], " is stalled for ", age_ns / 1'000'000'000, " s, and ",
                   stall_limit_ns_ / 1'000'000'000, " s is the most (FARANDOLE_STALL_LIMIT_MS)",
                   stall_sentence_.empty() ? "" : absl::StrCat(": ", stall_sentence_))));
}

// Work enqueued on a GPU is complete for the table: if it hangs there, only this watch sees it.
void CoordinatorLink::WatchGpu(int64_t now_ns) {
  if (gpus_ == nullptr || !gpus_->is_used()) return;
  SendGpuStatus(now_ns);
  if (const auto warning = gpus_->TakeWarning(); warning.has_value()) log_.Write(LogLevel::kWarning, rank_, *warning);
  if (gpu_lookout_ == nullptr)
    gpu_lookout_ = std::make_unique<GpuLookout>([gpus = gpus_](int64_t looked_ns) { return gpus->Look(looked_ns); });
  const GpuLookout::Answer answer = gpu_lookout_->Ask(now_ns);
  if (IsWarningDue(answer.silent_ns, stall_warning_ns_, &warned_driver_ns_)) {
    log_.Write(LogLevel::kWarning, rank_,
               absl::StrCat("the driver of the GPU of ", who_[rank_], " has not answered for ",
                            answer.silent_ns / 1'000'000'000, " s"));
  }
  const absl::StatusOr<GpuWatch::Late>& late = answer.late;
  if (!late.ok()) {
    return engine_->Abort(absl::Status(
        late.status().code(), absl::StrCat("the GPU of ", who_[rank_], " has failed: ", late.status().message())));
  }
  if (late->age_ns <= stall_warning_ns_) {
    warned_gpu_ns_ = 0;
    return;
  }
  const std::string sentence =
      absl::StrCat(late->label, " is on the GPU of ", who_[rank_], " for ", late->age_ns / 1'000'000'000, " s; ",
                   late->is_computed ? "its tensors are there, and it waits for peers"
                                     : "this worker's own kernels have not computed its tensors yet");
  // Those that wait all say the same, so the first of them does; who is late says so himself.
  const bool tells = late->is_first || !late->is_computed;
  if (tells && IsWarningDue(late->age_ns, stall_warning_ns_, &warned_gpu_ns_)) {
    log_.Write(LogLevel::kWarning, rank_, sentence);
    // NCCL forgets it once the epoch has ended.
    nccl_ras_->Ask(
        [log = log_, rank = rank_](LogLevel level, const std::string& line) { log.Write(level, rank, line); });
  }
  if (gpu_stall_limit_ns_ == 0 || late->age_ns <= gpu_stall_limit_ns_) return;
  engine_->Abort(absl::DeadlineExceededError(absl::StrCat(sentence, ", and ", gpu_stall_limit_ns_ / 1'000'000'000,
                                                          " s is the most (FARANDOLE_STALL_LIMIT_MS)")));
}

// If the GPU does not answer any more, the last status sent is taken back.
void CoordinatorLink::SendGpuStatus(int64_t now_ns) {
  const std::optional<GpuMeter::Sample> sample = gpus_->TakeSample();
  const bool is_stale = last_gpu_sample_ns_ != 0 && now_ns - last_gpu_sample_ns_ > kGpuSampleLimitNs;
  if (!sample.has_value() && !is_stale) return;
  last_gpu_sample_ns_ = sample.has_value() ? now_ns : 0;
  v1::WorkerMessage message;
  message.mutable_gpu_status()->set_epoch(epoch_.number());
  if (sample.has_value()) {
    v1::Gpu* gpu = message.mutable_gpu_status()->mutable_gpu();
    gpu->set_name(sample->name.substr(0, kMostGpuNameBytes));
    if (sample->busy_percent.has_value()) gpu->set_busy_percent(std::min(*sample->busy_percent, 100u));
    gpu->set_memory_used_bytes(std::min(sample->memory_used, kMostGpuBytes));
    gpu->set_memory_total_bytes(std::min(sample->memory_total, kMostGpuBytes));
  }
  conversation_->Send(std::move(message));
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
  bool speaks_for_host = true;
  for (int rank = first_local_; rank < first_local_ + local_size_; ++rank) {
    const ReadyChannel::Pulse pulse = channel_->ReadPulse(rank);
    Peer& peer = peers_[rank];
    if (pulse.beat != peer.beat) {
      peer.beat = pulse.beat;
      // Since the last look, whatever the other process' clock says.
      peer.advanced_ns = std::clamp(pulse.beat_ns, looked_ns_, now_ns);
    }
    const bool live = !channel_->HasLeft(rank) && now_ns - peer.advanced_ns < most_age_ns;
    if (rank < rank_ && live && pulse.is_attached) speaks_for_host = false;
    v1::Pulse* row = heartbeat->add_pulses();
    row->set_rank(static_cast<uint32_t>(rank));
    row->set_beat(pulse.beat);
    row->set_batches(pulse.batches);
    row->set_age_ms(static_cast<uint64_t>((now_ns - peer.advanced_ns) / 1'000'000));
  }
  looked_ns_ = now_ns;
  if (speaks_for_host) conversation_->Send(std::move(message));
}

void CoordinatorLink::SendStallReport(uint64_t inquiry) {
  const SubmissionTable::Activity activity = engine_->table().ReadActivity(conversation_->NowNs());
  v1::WorkerMessage message;
  v1::StallReport* report = message.mutable_stall_report();
  report->set_epoch(epoch_.number());
  report->set_inquiry(inquiry);
  report->set_last_submitted(activity.last_submitted);
  report->set_last_submitted_age_ms(static_cast<uint64_t>(activity.last_submitted_age_ns / 1'000'000));
  report->set_completed(activity.completed);
  report->set_running(activity.running);
  report->set_unasked(activity.unasked);
  report->set_group_requests(static_cast<uint32_t>(group_requests_.size()));
  for (const SubmissionTable::Pending& pending : activity.pending) {
    v1::PendingTensor* row = report->add_pending();
    row->set_name(pending.name);
    row->set_group(pending.group);
    row->set_op(static_cast<v1::OpType>(pending.op));
    row->set_age_ms(static_cast<uint64_t>(pending.age_ns / 1'000'000));
  }
  conversation_->Send(std::move(message));
}

}  // namespace farandole
