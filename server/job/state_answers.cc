// The parts of Job::State that answer calls about checkpoints and for the monitor, and that read and write the job's
// rows.
#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/job/member_record.h"
#include "server/job/state.h"
#include "server/job/wording.h"

namespace farandole {

template <typename Response>
void Job::State::Answer(CallId call, absl::StatusOr<Response> response) {
  Reply reply{call, response.status(), {}};
  if (response.ok()) reply.message = *std::move(response);
  actions_.outputs.push_back(std::move(reply));
}
template void Job::State::Answer(CallId, absl::StatusOr<v1::JoinResponse>);
template void Job::State::Answer(CallId, absl::StatusOr<v1::AbortJobResponse>);

void Job::State::On(const BeginCheckpointRequested& event) {
  CheckpointGate::Writes writes;
  absl::StatusOr<v1::BeginCheckpointResponse> response = gate_.Begin(event.request, Present(), &writes);
  Persist(std::move(writes));
  Answer(event.call, std::move(response));
}

void Job::State::On(const CommitCheckpointRequested& event) {
  CheckpointGate::Writes writes;
  absl::StatusOr<v1::CommitCheckpointResponse> response = gate_.Commit(event.request, Present(), now_, &writes);
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
  if (record_.state() == v1::JOB_STATE_FORMING) {
    response.clear_workers();
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
  summary.set_reason(is_forming ? lobby_.WaitingSentence() : record_.reason());
  summary.set_epoch(record_.epoch().number());
  summary.set_size(is_forming ? lobby_.size() : record_.epoch().members_size());
  summary.set_wanted_size(record_.wanted_size());
  summary.set_created_unix_ms(record_.created_unix_ms());
  if (run_ != nullptr) summary.set_batches_per_second(run_->roster().BatchesPerSecond());
  summary.set_last_stall(run_ == nullptr ? last_stall_ : run_->last_stall());
  const absl::Time stalled_at = run_ == nullptr ? last_stall_at_ : run_->last_stall_at();
  if (!summary.last_stall().empty()) summary.set_last_stall_unix_ms(absl::ToUnixMillis(stalled_at));
  return summary;
}

bool Job::State::IsIdle() const {
  return run_ == nullptr && streams_.empty() && lobby_.IsEmpty() && record_.state() != v1::JOB_STATE_FORMING;
}

void Job::State::Persist(CheckpointGate::Writes writes) {
  if (writes.deletes.empty() && writes.puts.empty()) return;
  for (std::string& key : writes.deletes) actions_.persist.deletes.push_back(std::move(key));
  for (auto& [key, value] : writes.puts) actions_.persist.puts.push_back({std::move(key), std::move(value)});
  record_changed_ = true;
}

void Job::State::PersistRecord() {
  if (run_ != nullptr) {
    record_.set_slots_reserved(run_->reserved().slots);
    record_.set_groups_reserved(run_->reserved().groups);
    record_.clear_left();
    for (uint32_t rank = 0; rank < run_->roster().size(); ++rank) {
      if (run_->roster().seat(rank).left) record_.add_left(rank);
    }
  }
  record_.set_last_token(gate_.last_token());
  *record_.mutable_history() = history_.entries();
  google::protobuf::RepeatedPtrField<v1::Member> members;
  members.Swap(record_.mutable_epoch()->mutable_members());
  actions_.persist.puts.push_back({absl::StrCat("job/", tenant_, "/", name_), record_.SerializeAsString()});
  members.Swap(record_.mutable_epoch()->mutable_members());
  if (members_record_.empty()) return;
  actions_.persist.puts.push_back({absl::StrCat("members/", tenant_, "/", name_), std::move(members_record_)});
}

absl::Status Job::State::Load(absl::Span<const StoreRow> rows, absl::Time now) {
  now_ = now;
  const auto members = absl::c_find_if(rows, [](const StoreRow& row) { return absl::StartsWith(row.key, "members/"); });
  for (const StoreRow& row : rows) {
    absl::Status status;
    if (absl::StartsWith(row.key, "job/")) {
      status = LoadRecord(row, members == rows.end() ? nullptr : &*members, now);
    } else if (absl::StartsWith(row.key, "checkpoint/") || absl::StartsWith(row.key, "grant/")) {
      status = gate_.Load(row.key, row.value);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Job::State::LoadRecord(const StoreRow& row, const StoreRow* members_row, absl::Time now) {
  v1::JobRecord record;
  if (!record.ParseFromString(row.value))
    return absl::DataLossError(absl::StrCat("row ", row.key, " is not a job's record"));
  if (members_row != nullptr) {
    absl::StatusOr<v1::Epoch> members = UnpackMembers(members_row->value);
    if (!members.ok())
      return absl::DataLossError(absl::StrCat("row ", members_row->key, ": ", members.status().message()));
    if (members->number() == record.epoch().number())
      record.mutable_epoch()->mutable_members()->Swap(members->mutable_members());
  }
  if (record.size() != static_cast<uint32_t>(record.epoch().members_size())) {
    return absl::DataLossError(absl::StrCat("row ", row.key, " says that epoch ", record.epoch().number(), " has ",
                                            Count(record.size(), "member"), ", and ", record.epoch().members_size(),
                                            " are kept"));
  }
  for (const uint32_t rank : record.left()) {
    if (rank < static_cast<uint32_t>(record.epoch().members_size())) continue;
    return absl::DataLossError(absl::StrCat("row ", row.key, " says that rank ", rank, " left, and its epoch has ",
                                            Count(record.epoch().members_size(), "rank")));
  }
  if (record.state() == v1::JOB_STATE_RUNNING && record.left_size() >= record.epoch().members_size()) {
    return absl::DataLossError(absl::StrCat("row ", row.key, " says that the job runs, and its epoch has no members"));
  }
  record_ = std::move(record);
  record_.set_tenant(tenant_);
  record_.set_job(name_);
  history_.Load(record_.history());
  gate_.SkipTokens(record_.last_token());
  const v1::Epoch& epoch = record_.epoch();
  if (record_.state() == v1::JOB_STATE_RUNNING) {
    run_ = std::make_unique<RunningEpoch>(epoch, options_, absl::Milliseconds(record_.stall_warning_ms()),
                                          RunningEpoch::Reserved{record_.slots_reserved(), record_.groups_reserved()},
                                          &history_);
    run_->AwaitReturn(record_.left(), now);
    history_.Add(absl::StrCat("the coordinator was restarted and waits for the members of epoch ", epoch.number(),
                              " to come back"),
                 now);
    return absl::OkStatus();
  }
  // While forming, nobody of the last epoch runs either; who waited asks again.
  if (record_.state() == v1::JOB_STATE_FORMING) lobby_.Await(now, options_.reattach_window, record_.wanted_size());
  for (int rank = 0; rank < epoch.members_size(); ++rank) {
    fence_.Shut(epoch.members(rank).incarnation(),
                absl::StrCat("epoch ", epoch.number(), " has ended: ", record_.reason()));
    v1::WorkerStatus& worker = last_workers_.emplace_back();
    worker.set_rank(rank);
    *worker.mutable_member() = epoch.members(rank);
    worker.set_state("ended");
  }
  for (const uint32_t rank : record_.left()) last_workers_[rank].set_state("left");
  return absl::OkStatus();
}

}  // namespace farandole
