// The parts of Job::State that read and write the job's rows.
#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/job/rules/member_record.h"
#include "server/job/rules/wording.h"
#include "server/job/state.h"

namespace farandole {

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
  }
  if (PresentRoster() != nullptr) SaveStands(*PresentRoster());
  hosts_.Save(wall_ahead_, &record_);
  lost_.Save(wall_ahead_, &record_);
  record_.set_last_token(gate_.last_token());
  *record_.mutable_history() = history_.entries();
  google::protobuf::RepeatedPtrField<v1::Member> members;
  members.Swap(record_.mutable_epoch()->mutable_members());
  actions_.persist.puts.push_back({absl::StrCat("job/", tenant_, "/", name_), record_.SerializeAsString()});
  members.Swap(record_.mutable_epoch()->mutable_members());
  if (members_record_.empty()) return;
  actions_.persist.puts.push_back({absl::StrCat("members/", tenant_, "/", name_), std::move(members_record_)});
}

void Job::State::SaveStands(const Roster& roster) {
  record_.clear_left();
  record_.clear_lost();
  record_.clear_drained();
  for (uint32_t rank = 0; rank < roster.size(); ++rank) {
    const Roster::Seat& seat = roster.seat(rank);
    if (seat.left && !seat.returns) record_.add_left(rank);
    if (!seat.lost.empty() && IsElastic()) record_.add_lost(rank);
    if (seat.drained) record_.add_drained(rank);
  }
}

absl::Status Job::State::Load(absl::Span<const StoreRow> rows, absl::Time now, absl::Duration wall_ahead) {
  now_ = now;
  SetWallAhead(wall_ahead);
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
  const auto check_ranks = [&row, &record](const char* what, const auto& ranks) {
    for (const uint32_t rank : ranks) {
      if (rank < record.size()) continue;
      return absl::DataLossError(absl::StrCat("row ", row.key, " says that rank ", rank, what, ", and its epoch has ",
                                              Count(record.size(), "rank")));
    }
    return absl::OkStatus();
  };
  if (absl::Status status = check_ranks(" left", record.left()); !status.ok()) return status;
  if (absl::Status status = check_ranks(" was lost", record.lost()); !status.ok()) return status;
  if (absl::Status status = check_ranks(" was drained", record.drained()); !status.ok()) return status;
  if (record.state() == v1::JOB_STATE_RUNNING && record.left_size() >= record.epoch().members_size()) {
    return absl::DataLossError(absl::StrCat("row ", row.key, " says that the job runs, and its epoch has no members"));
  }
  record_ = std::move(record);
  record_.set_tenant(tenant_);
  record_.set_job(name_);
  history_.Load(record_.history());
  gate_.SkipTokens(record_.last_token());
  const v1::Epoch& epoch = record_.epoch();
  hosts_.Load(record_, now, wall_ahead_);
  lost_.Load(record_, now, wall_ahead_);
  for (const uint32_t rank : record_.drained()) {
    drained_.Shut(epoch.members(rank).incarnation(),
                  absl::StrCat(DescribeRank(rank, epoch.members(rank)), " was to leave epoch ", epoch.number()));
  }
  if (record_.state() == v1::JOB_STATE_RUNNING) return RestoreEpoch(now), absl::OkStatus();
  if (record_.state() == v1::JOB_STATE_FORMING && record_.epoch_ended() && IsElastic())
    return RestoreSurvivors(now), absl::OkStatus();
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

void Job::State::RestoreEpoch(absl::Time now) {
  const v1::Epoch& epoch = record_.epoch();
  run_ = std::make_unique<RunningEpoch>(epoch, options_, StallLimits(),
                                        RunningEpoch::Reserved{record_.slots_reserved(), record_.groups_reserved()},
                                        Links(), &history_);
  run_->AwaitReturn(record_, now);
  if (IsElastic()) {
    const absl::Duration window = absl::Milliseconds(record_.elastic().join_window_ms());
    change_ = std::make_unique<WantedChange>(epoch.number(), window, record_.change_serial());
  }
  history_.Add(absl::StrCat("the coordinator was restarted and waits for the members of epoch ", epoch.number(),
                            " to come back"),
               now);
}

void Job::State::RestoreSurvivors(absl::Time now) {
  const v1::Epoch& epoch = record_.epoch();
  const std::string ended = absl::StrCat("epoch ", epoch.number(), " has ended: ", record_.reason());
  auto roster = std::make_unique<Roster>(epoch, options_.silence_limit);
  for (const uint32_t rank : record_.drained()) roster->Drain(rank);
  for (const uint32_t rank : record_.left()) roster->Leave(rank);
  for (const uint32_t rank : record_.lost()) {
    roster->MarkLost(rank, "before the coordinator was restarted");
    fence_.Shut(epoch.members(rank).incarnation(), ended);
  }
  survivors_ = std::make_unique<Survivors>(epoch, std::move(roster), StallLimits().loss, options_.reattach_window, now);
  history_.Add(absl::StrCat("the coordinator was restarted between two epochs and waits for ",
                            Count(survivors_->awaited(), "survivor"), " of epoch ", epoch.number()),
               now);
}

}  // namespace farandole
