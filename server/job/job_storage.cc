#include "server/job/job_storage.h"

#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/job/rules/member_record.h"
#include "server/job/rules/wording.h"

namespace farandole {
absl::Status JobStorage::Load(absl::Span<const StoreRow> rows, absl::Time now, absl::Duration wall_ahead) {
  ledger_.BeginStep(now, wall_ahead);
  const auto members = absl::c_find_if(rows, [](const StoreRow& row) { return absl::StartsWith(row.key, "members/"); });
  // An epoch that runs goes on in what was measured before.
  const std::vector<std::string> unread = LoadMeasured(rows);
  for (const StoreRow& row : rows) {
    absl::Status status;
    if (absl::StartsWith(row.key, "job/")) {
      status = LoadRecord(row, members == rows.end() ? nullptr : &*members);
    } else if (absl::StartsWith(row.key, "checkpoint/") || absl::StartsWith(row.key, "grant/")) {
      status = job_.gate.Load(row.key, row.value);
    } else if (absl::StartsWith(row.key, "logged/")) {
      status = job_.logged.Load(row);
    } else if (row.key == KeyOf("gone")) {
      status = LoadGone(row);
    }
    if (!status.ok()) return status;
  }
  catalogue_charge_.Resize(static_cast<int64_t>(job_.gate.bytes()));
  AdoptReport();
  if (unread.empty()) return absl::OkStatus();
  const std::string more = unread.size() == 1 ? "" : absl::StrCat(", nor are ", Count(unread.size() - 1, "other"));
  ledger_.history().Add(absl::StrCat(unread.front(), more), now);
  return absl::OkStatus();
}

std::vector<std::string> JobStorage::LoadMeasured(absl::Span<const StoreRow> rows) {
  std::vector<std::string> unread;
  for (const StoreRow& row : rows) {
    if (!absl::StartsWith(row.key, "measured/")) continue;
    if (const absl::Status status = job_.measured.Load(row); !status.ok()) unread.emplace_back(status.message());
  }
  return unread;
}

void JobStorage::AdoptReport() {
  const v1::GetJobResponse& report = job_.measured.loaded();
  if (report.summary().epoch() != ledger_.record().epoch().number()) return;
  job_.last.diagnosis = report.diagnosis();
  job_.last.hosts.assign(report.hosts().begin(), report.hosts().end());
}

void JobStorage::Save() {
  if (job_.run != nullptr) {
    ledger_.Change()->set_slots_reserved(job_.run->reserved().slots);
    ledger_.Change()->set_groups_reserved(job_.run->reserved().groups);
  }
  if (job_.PresentRoster() != nullptr) ledger_.RecordStands(*job_.PresentRoster());
  job_.failures.Save(ledger_.wall_ahead(), ledger_.Change());
  ledger_.Change()->set_last_token(job_.gate.last_token());
  if (job_.wanted.state().serial() != 0) *ledger_.Change()->mutable_wanted_checkpoint() = job_.wanted.state();
  *ledger_.Change()->mutable_history() = ledger_.history().entries();
  google::protobuf::RepeatedPtrField<v1::Member> members;
  members.Swap(ledger_.Change()->mutable_epoch()->mutable_members());
  StoreBatch& persist = ledger_.actions().persist;
  persist.puts.push_back({KeyOf("job"), ledger_.record().SerializeAsString()});
  // The record has the numbers from now on.
  if (has_gone_row_) persist.deletes.push_back(KeyOf("gone"));
  has_gone_row_ = false;
  members.Swap(ledger_.Change()->mutable_epoch()->mutable_members());
  std::string members_row = ledger_.TakeMembersRow();
  if (members_row.empty()) return;
  persist.puts.push_back({KeyOf("members"), std::move(members_row)});
}

void JobStorage::Delete() {
  v1::GoneRecord gone;
  gone.set_last_epoch(ledger_.record().epoch().number());
  gone.set_last_token(job_.gate.last_token());
  gone.set_deleted_unix_ms(absl::ToUnixMillis(ledger_.now() + ledger_.wall_ahead()));
  StoreBatch& persist = ledger_.actions().persist;
  persist.deletes.push_back(KeyOf("job"));
  if (ledger_.record().epoch().members_size() > 0) persist.deletes.push_back(KeyOf("members"));
  persist.puts.push_back({KeyOf("gone"), gone.SerializeAsString()});
  persist.puts.push_back({KeyOf("purge"), ""});
}

std::string JobStorage::KeyOf(absl::string_view kind) const {
  return absl::StrCat(kind, "/", ledger_.tenant(), "/", ledger_.name());
}

absl::Status JobStorage::LoadGone(const StoreRow& row) {
  v1::GoneRecord gone;
  if (!gone.ParseFromString(row.value))
    return absl::DataLossError(absl::StrCat("row ", row.key, " is not that of a deleted job"));
  has_gone_row_ = true;
  ledger_.Change()->mutable_epoch()->set_number(gone.last_epoch());
  job_.gate.SkipTokens(gone.last_token());
  return absl::OkStatus();
}

absl::Status JobStorage::AdmitCheckpoint(const v1::BeginCheckpointRequest& request) const {
  if (!job_.gate.WouldGrow(request)) return absl::OkStatus();
  ByteCharge room(job_.options.bytes, ByteKind::kCheckpoints);
  return room.Grow(CheckpointGate::kMostBytesOfOne, ByteClass::kJob);
}

void JobStorage::SaveCheckpoints(CheckpointGate::Writes writes) {
  if (writes.deletes.empty() && writes.puts.empty()) return;
  catalogue_charge_.Resize(static_cast<int64_t>(job_.gate.bytes()));
  for (std::string& key : writes.deletes) ledger_.actions().persist.deletes.push_back(std::move(key));
  for (auto& [key, value] : writes.puts) ledger_.actions().persist.puts.push_back({std::move(key), std::move(value)});
  ledger_.MarkChanged();
}

absl::Status JobStorage::LoadRecord(const StoreRow& row, const StoreRow* members_row) {
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
  *ledger_.Change() = std::move(record);
  ledger_.Change()->set_tenant(ledger_.tenant());
  ledger_.Change()->set_job(ledger_.name());
  // Records of earlier versions do not tell when the job ended.
  if (!job_.IsOngoing() && ledger_.record().state() != v1::JOB_STATE_RUNNING && ledger_.record().ended_unix_ms() == 0)
    ledger_.Change()->set_ended_unix_ms(ledger_.record().created_unix_ms());
  // It would be out of date when spans are exported again.
  if (!job_.options.traces_runs) ledger_.Change()->clear_trace();
  ledger_.Trace([](RunTrace& trace, absl::Time at) { trace.NoteRestart(at); });
  ledger_.history().Load(ledger_.record().history());
  job_.gate.SkipTokens(ledger_.record().last_token());
  job_.wanted.Load(ledger_.record().wanted_checkpoint());
  const v1::Epoch& epoch = ledger_.record().epoch();
  job_.failures.Load(ledger_.record(), ledger_.now(), ledger_.wall_ahead());
  for (const uint32_t rank : ledger_.record().drained()) {
    job_.drained.Shut(epoch.members(rank).incarnation(),
                      absl::StrCat(DescribeRank(rank, epoch.members(rank)), " was to leave epoch ", epoch.number()));
  }
  if (ledger_.record().state() == v1::JOB_STATE_RUNNING) return RestoreEpoch(), absl::OkStatus();
  if (ledger_.record().state() == v1::JOB_STATE_FORMING && ledger_.record().epoch_ended() && job_.IsElastic())
    return RestoreSurvivors(), absl::OkStatus();
  // While forming, no member of the last epoch runs either; waiting workers ask again.
  if (ledger_.record().state() == v1::JOB_STATE_FORMING)
    job_.lobby.Await(ledger_.now(), job_.options.reattach_window, ledger_.record().wanted_size());
  for (int rank = 0; rank < epoch.members_size(); ++rank) {
    job_.fence.Shut(epoch.members(rank).incarnation(),
                    absl::StrCat("epoch ", epoch.number(), " has ended: ", ledger_.record().reason()));
    v1::WorkerStatus& worker = job_.last.workers.emplace_back();
    worker.set_rank(rank);
    *worker.mutable_member() = epoch.members(rank);
    worker.set_state("ended");
  }
  for (const uint32_t rank : ledger_.record().left()) job_.last.workers[rank].set_state("left");
  return absl::OkStatus();
}

void JobStorage::RestoreEpoch() {
  const v1::Epoch& epoch = ledger_.record().epoch();
  job_.measured.history().Begin(epoch.number(), {}, {}, ledger_.now(), ledger_.wall_ahead());
  job_.run = std::make_unique<RunningEpoch>(
      epoch, job_.options, job_.StallLimits(),
      RunningEpoch::Reserved{ledger_.record().slots_reserved(), ledger_.record().groups_reserved()}, job_.Links(),
      &ledger_.history(), &job_.measured.history());
  job_.run->AwaitReturn(ledger_.record(), ledger_.now());
  if (job_.IsElastic()) {
    const absl::Duration window = absl::Milliseconds(ledger_.record().elastic().join_window_ms());
    job_.change = std::make_unique<WantedChange>(epoch.number(), window, ledger_.record().change_serial());
  }
  ledger_.history().Add(absl::StrCat("the coordinator was restarted and waits for the members of epoch ",
                                     epoch.number(), " to come back"),
                        ledger_.now());
}

void JobStorage::RestoreSurvivors() {
  const v1::Epoch& epoch = ledger_.record().epoch();
  const std::string ended = absl::StrCat("epoch ", epoch.number(), " has ended: ", ledger_.record().reason());
  auto roster = std::make_unique<Roster>(epoch, job_.options.silence_limit);
  for (const uint32_t rank : ledger_.record().drained()) roster->Drain(rank);
  for (const uint32_t rank : ledger_.record().left()) roster->Leave(rank);
  for (const uint32_t rank : ledger_.record().lost()) {
    roster->MarkLost(rank, absl::StrCat("before the coordinator was restarted, which knows no more of it; ", ended));
    job_.fence.Shut(epoch.members(rank).incarnation(), ended);
  }
  job_.survivors = std::make_unique<Survivors>(epoch, std::move(roster), job_.StallLimits().loss,
                                               job_.options.reattach_window, ledger_.now());
  ledger_.history().Add(absl::StrCat("the coordinator was restarted between two epochs and waits for ",
                                     Count(job_.survivors->awaited(), "survivor"), " of epoch ", epoch.number()),
                        ledger_.now());
}

}  // namespace farandole
