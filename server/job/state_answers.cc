// The parts of Job::State that answer calls about checkpoints and for the monitor.
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/job/rules/wording.h"
#include "server/job/state.h"

namespace farandole {
namespace {

// Jobs that share a directory do not draw the same by chance.
constexpr size_t kCatalogueIdBytes = 8;

}  // namespace

template <typename Response>
void Job::State::Answer(CallId call, absl::StatusOr<Response> response) {
  Reply reply{call, response.status(), {}};
  if (response.ok()) reply.message = *std::move(response);
  actions_.outputs.push_back(std::move(reply));
}
template void Job::State::Answer(CallId, absl::StatusOr<v1::JoinResponse>);
template void Job::State::Answer(CallId, absl::StatusOr<v1::AbortJobResponse>);
template void Job::State::Answer(CallId, absl::StatusOr<v1::ReportExitResponse>);
template void Job::State::Answer(CallId, absl::StatusOr<v1::ListLostResponse>);
template void Job::State::Answer(CallId, absl::StatusOr<v1::DrainWorkersResponse>);

void Job::State::On(const BeginCheckpointRequested& event) {
  CheckpointGate::Writes writes;
  absl::StatusOr<v1::BeginCheckpointResponse> response = gate_.Begin(event.request, Present(), &writes);
  if (response.ok()) response->set_catalogue(CatalogueName());
  Persist(std::move(writes));
  Answer(event.call, std::move(response));
}

std::string Job::State::CatalogueName() {
  if (record_.catalogue_id().empty()) {
    record_.set_catalogue_id(random_bytes_(kCatalogueIdBytes));
    record_changed_ = true;
  }
  return absl::BytesToHexString(record_.catalogue_id());
}

void Job::State::On(const CommitCheckpointRequested& event) {
  CheckpointGate::Writes writes;
  absl::StatusOr<v1::CommitCheckpointResponse> response =
      gate_.Commit(event.request, Present(), now_ + wall_ahead_, &writes);
  if (response.ok() && !writes.puts.empty()) {
    const v1::Checkpoint& checkpoint = response->checkpoint();
    Tell(LogLine::Level::kInform, absl::StrCat("checkpoint written: ", Plain(checkpoint.name()), " at step ",
                                               checkpoint.step(), ", ", Plain(checkpoint.path(), 400)));
  }
  Persist(std::move(writes));
  Answer(event.call, std::move(response));
}

void Job::State::On(const FindCheckpointRequested& event) { Answer(event.call, gate_.Find(event.request)); }

void Job::State::On(const CheckpointsListed& event) { Answer<v1::ListCheckpointsResponse>(event.call, gate_.List()); }

void Job::State::On(const JobInspected& event) {
  v1::GetJobResponse response;
  *response.mutable_summary() = Summary();
  *response.mutable_history() = history_.entries();
  response.set_negotiation_messages(run_ == nullptr ? last_negotiation_messages_ : run_->negotiation_messages());
  for (v1::WorkerStatus& worker : run_ == nullptr ? last_workers_ : run_->Workers(now_))
    *response.add_workers() = worker;
  if (record_.state() == v1::JOB_STATE_FORMING) response.clear_workers();
  if (survivors_ != nullptr) {
    for (v1::WorkerStatus& worker : survivors_->Workers(now_)) *response.add_workers() = std::move(worker);
  }
  *response.mutable_barred_hosts() = hosts_.List(now_);
  if (record_.state() == v1::JOB_STATE_FORMING || IsElastic()) {
    for (const auto& [order, waiting] : lobby_.workers()) {
      v1::WorkerStatus* worker = response.add_workers();
      *worker->mutable_member() = waiting.member;
      worker->set_state("waiting");
    }
  }
  Answer<v1::GetJobResponse>(event.call, std::move(response));
}

v1::JobSummary Job::State::Summary() const {
  v1::JobSummary summary;
  const bool is_forming = record_.state() == v1::JOB_STATE_FORMING;
  summary.set_tenant(tenant_);
  summary.set_job(name_);
  summary.set_state(record_.state());
  summary.set_reason(is_forming ? WaitingSentence() : record_.reason());
  summary.set_epoch(record_.epoch().number());
  summary.set_size(is_forming ? lobby_.size() : record_.epoch().members_size());
  summary.set_wanted_size(record_.wanted_size());
  summary.set_created_unix_ms(record_.created_unix_ms());
  if (IsElastic()) *summary.mutable_elastic() = record_.elastic();
  if (run_ != nullptr) summary.set_waiting(lobby_.size());
  summary.set_resets(record_.resets());
  if (run_ != nullptr) {
    summary.set_batches_per_second(run_->roster().BatchesPerSecond());
    const v1::GpuUsage gpus = run_->roster().GpuUsage();
    if (gpus.gpus() > 0) *summary.mutable_gpus() = gpus;
  }
  summary.set_last_stall(run_ == nullptr ? last_stall_ : run_->last_stall());
  const absl::Time stalled_at = run_ == nullptr ? last_stall_at_ : run_->last_stall_at();
  if (!summary.last_stall().empty()) summary.set_last_stall_unix_ms(absl::ToUnixMillis(stalled_at + wall_ahead_));
  return summary;
}

bool Job::State::IsIdle() const {
  return run_ == nullptr && streams_.empty() && lobby_.IsEmpty() && record_.state() != v1::JOB_STATE_FORMING;
}

}  // namespace farandole
