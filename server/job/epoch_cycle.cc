#include "server/job/epoch_cycle.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/job/rules/host_numbers.h"
#include "server/job/rules/member_record.h"
#include "server/job/rules/rank_order.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// Where nobody goes on from the epoch before: from the first comer on, how long the wanted number is waited for.
constexpr absl::Duration kComeback = absl::Seconds(10);

}  // namespace

void EpochCycle::OnFirstInLobby() {
  if (job_.run == nullptr && job_.survivors == nullptr) BeginForming();
  if (job_.IsNobodyLeft()) AdoptTerms();
}

void EpochCycle::Settle() {
  if (job_.run != nullptr) {
    job_.run->Advance(ledger_.effects());
    if (job_.run->ending().has_value()) {
      OnEpochLost(RunningEpoch::Ending(*job_.run->ending()));
    } else if (job_.run->IsLeft()) {
      OnEpochLeft();
    } else if (job_.IsElastic()) {
      departures_.TellWantedChange();
    }
  }
  if (job_.survivors != nullptr) SettleSurvivors();
  SettleLobby();
}

void EpochCycle::Abort(const std::string& reason, LogLine::Level level) {
  if (job_.run != nullptr) return FailRun({reason, {}});
  if (job_.survivors != nullptr) return EndBetweenEpochs(v1::JOB_STATE_FAILED, reason);
  dismissal_.DismissLobby(reason);
  ledger_.Enter(v1::JOB_STATE_FAILED, reason, level);
}

void EpochCycle::TakeEnd(const v1::ProcessEnded& ended) {
  // In an elastic job others may come instead. Where the process waits here, its stream says what became of it.
  if (job_.IsElastic() || job_.run != nullptr || job_.lobby.size() >= job_.lobby.wanted_size()) return;
  if (job_.lobby.FindLaunched(ended.launch_index()) != nullptr) return;
  Abort(absl::StrCat(Plain(ended.sentence(), 512), " before it joined, but job ", ledger_.name(), " ",
                     job_.lobby.WaitingSentence()),
        LogLine::Level::kError);
}

void EpochCycle::LeaveLobby(const Lobby::Worker& worker, bool returns) {
  job_.lobby.Remove(worker.member.incarnation());
  if (!worker.old_rank.has_value()) return;
  if (job_.survivors == nullptr) {
    if (!returns) losses_.Forsake(*worker.old_rank, "it left before the next epoch was formed");
  } else if (returns) {
    job_.survivors->Await(*worker.old_rank, ledger_.now());
  } else {
    job_.survivors->Leave(*worker.old_rank, false, ledger_.now());
  }
}

void EpochCycle::Greet(const Lobby::Worker& worker) {
  if (job_.run != nullptr || !IsReadyToForm()) TellWaiting(worker);
}

absl::Time EpochCycle::Deadline() const {
  absl::Time deadline = job_.lobby.Deadline();
  if (job_.run != nullptr) deadline = std::min(deadline, job_.run->Deadline());
  if (job_.change != nullptr) deadline = std::min(deadline, job_.change->Deadline());
  if (job_.survivors != nullptr) deadline = std::min(deadline, job_.survivors->Deadline());
  if (job_.shortage_since != absl::InfiniteFuture())
    deadline =
        std::min(deadline, job_.shortage_since + absl::Milliseconds(ledger_.record().elastic().shortage_limit_ms()));
  return deadline;
}

void EpochCycle::BeginForming() {
  if (ledger_.record().created_unix_ms() == 0) ledger_.Change()->set_created_unix_ms(ledger_.wall_ms());
  ledger_.Change()->clear_epoch_ended();
  ledger_.Change()->clear_resets();
  job_.failures.Clear();
  job_.links.Clear();
  AdoptTerms();
  const std::string first = DescribeWorker(job_.lobby.workers().begin()->second.member);
  const std::string bounds = job_.IsElastic() ? absl::StrCat(" (", job_.MinSize(), " to ", job_.MaxSize(), ")") : "";
  ledger_.Enter(v1::JOB_STATE_FORMING,
                absl::StrCat("a run with ", Count(job_.lobby.wanted_size(), "worker"), bounds,
                             " begins to form: the first is ", first),
                LogLine::Level::kInform);
}

void EpochCycle::AdoptTerms() {
  ledger_.Change()->set_wanted_size(job_.lobby.wanted_size());
  ledger_.Change()->set_stall_warning_ms(absl::ToInt64Milliseconds(job_.lobby.stall_warning()));
  ledger_.Change()->clear_elastic();
  if (job_.lobby.elastic().has_value()) *ledger_.Change()->mutable_elastic() = *job_.lobby.elastic();
  job_.failures.Configure(ledger_.record().elastic());
  ledger_.MarkChanged();
}

void EpochCycle::SettleLobby() {
  for (const Lobby::Worker& worker : job_.lobby.RemoveUnopened(ledger_.now())) {
    const std::string claim =
        absl::StrCat("did not open its stream within ", ShowDuration(job_.lobby.open_limit()), "; it no longer counts");
    ledger_.Tell(LogLine::Level::kWarn, absl::StrCat(DescribeWorker(worker.member), " joined and ", claim));
    LeaveLobby(worker, true);
  }
  // Lost workers and replacements rejoin quickly; wait at most kComeback.
  if (job_.IsNobodyLeft() && !job_.lobby.IsEmpty()) job_.lobby.HastenTimeout(ledger_.now() + kComeback);
  const bool goes_on = job_.run != nullptr || job_.survivors != nullptr || job_.lobby.opened() >= job_.MinSize();
  if (job_.IsElastic() && goes_on && job_.lobby.Timeout() <= ledger_.now()) job_.lobby.Expire();
  if (job_.run == nullptr && IsReadyToForm()) return Form();
  if (job_.lobby.Timeout() <= ledger_.now()) {
    const std::string reason = job_.lobby.TimeoutSentence();
    dismissal_.DismissLobby(reason);
    if (job_.run == nullptr) return ledger_.Enter(v1::JOB_STATE_FAILED, reason, LogLine::Level::kError);
    return ledger_.Tell(LogLine::Level::kWarn, absl::StrCat("nobody waits for the next epoch any more: ", reason));
  }
  if (!job_.lobby.IsNoticeDue(ledger_.now())) return;
  for (const auto& [order, worker] : job_.lobby.workers()) TellWaiting(worker);
}

void EpochCycle::SettleSurvivors() {
  job_.survivors->SetMissed(!job_.lobby.IsEmpty(), ledger_.now());
  if (std::vector<Roster::Loss> losses = job_.survivors->FindLosses(ledger_.now()); !losses.empty())
    losses_.LoseSurvivors(std::move(losses));
  const uint64_t epoch = job_.survivors->epoch().number();
  if (job_.survivors->IsFinishing()) {
    return EndBetweenEpochs(
        v1::JOB_STATE_FINISHED,
        absl::StrCat("workers of epoch ", epoch, " left for good when it had ended: ", ledger_.record().reason()));
  }
  const size_t workers = job_.survivors->awaited() + job_.lobby.size();
  if (workers >= job_.MinSize()) {
    job_.shortage_since = absl::InfiniteFuture();
    return;
  }
  const absl::Duration limit = absl::Milliseconds(ledger_.record().elastic().shortage_limit_ms());
  if (job_.shortage_since == absl::InfiniteFuture()) {
    job_.shortage_since = ledger_.now();
    ledger_.Tell(LogLine::Level::kWarn, absl::StrCat("the job has ", Count(workers, "worker"), " and needs at least ",
                                                     job_.MinSize(), "; it waits for more for ", ShowDuration(limit)));
  }
  if (job_.shortage_since + limit > ledger_.now()) return;
  const std::string who = job_.lobby.IsEmpty() ? "" : absl::StrCat(": ", job_.lobby.NameWorkers());
  EndBetweenEpochs(v1::JOB_STATE_FAILED, absl::StrCat("the job needs at least ", Count(job_.MinSize(), "worker"),
                                                      " and had ", workers, " for ", ShowDuration(limit), who,
                                                      "; epoch ", epoch, " had ended: ", ledger_.record().reason()));
}

bool EpochCycle::IsReadyToForm() const {
  if (!job_.IsElastic() || job_.lobby.IsEmpty()) return job_.lobby.IsComplete();
  if (job_.survivors != nullptr && (job_.survivors->awaited() > 0 || job_.lobby.unopened_survivors() > 0)) return false;
  if (job_.lobby.opened() < job_.MinSize()) return false;
  if (job_.survivors != nullptr && job_.survivors->back() > 0) return true;
  // Nobody goes on from an epoch before: as many as are wanted are waited for, as long as the lobby does.
  return job_.lobby.opened() >= ledger_.record().wanted_size() || job_.lobby.IsExpired();
}

void EpochCycle::Form() {
  const absl::Duration stall_warning =
      job_.IsElastic() ? absl::Milliseconds(ledger_.record().stall_warning_ms()) : job_.lobby.stall_warning();
  const std::vector<Lobby::Worker> workers =
      job_.IsElastic() ? job_.lobby.TakeOpened(job_.MaxSize()) : job_.lobby.Take();
  std::vector<Candidate> candidates;
  candidates.reserve(workers.size());
  for (const Lobby::Worker& worker : workers)
    candidates.push_back({worker.member.host_id(), worker.launch_index, worker.old_rank});
  v1::Epoch epoch;
  epoch.set_max_slots(job_.options.max_slots);
  epoch.set_number(ledger_.record().epoch().number() + 1);
  epoch.set_secret(job_.random_bytes(32));
  const bool begins_anew = BeginsAnew(workers);
  epoch.set_reason(FormingReason(epoch, workers, begins_anew));
  std::vector<StreamId> streams;
  std::vector<int32_t> old_ranks;
  for (const size_t index : OrderRanks(candidates)) {
    *epoch.add_members() = workers[index].member;
    streams.push_back(workers[index].stream);
    const std::optional<uint32_t> old_rank = workers[index].old_rank;
    old_ranks.push_back(old_rank.has_value() ? static_cast<int32_t>(*old_rank) : -1);
  }
  std::string members_row = PackMembers(epoch);
  if (members_row.size() > kMostMembersRecordBytes) {
    const std::string reason =
        absl::StrCat("the members of the job describe themselves in ", members_row.size(), " bytes after compression; ",
                     kMostMembersRecordBytes, " is the most that is kept");
    dismissal_.Dismiss(workers, reason, false);
    if (job_.survivors != nullptr) return EndBetweenEpochs(v1::JOB_STATE_FAILED, reason);
    return ledger_.Enter(v1::JOB_STATE_FAILED, reason, LogLine::Level::kError);
  }
  if (job_.survivors != nullptr)
    CloseSurvivors(
        absl::StrCat("epoch ", ledger_.record().epoch().number(), " has ended: ", ledger_.record().reason()));
  ledger_.SetMembersRow(std::move(members_row));
  std::vector<int32_t> old_hosts = HostNumbers(epoch).NumbersIn(HostNumbers(ledger_.record().epoch()));
  *ledger_.Change()->mutable_epoch() = epoch;
  ledger_.Change()->set_size(workers.size());
  if (!job_.IsElastic()) ledger_.Change()->set_wanted_size(workers.size());
  ledger_.Change()->set_stall_warning_ms(absl::ToInt64Milliseconds(stall_warning));
  ledger_.Change()->clear_epoch_ended();
  ledger_.Change()->clear_change_serial();
  job_.last.workers.clear();
  job_.last.flights.Clear();
  job_.last.flight.clear();
  job_.last.diagnosis.Clear();
  job_.last.hosts.clear();
  job_.measured.history().Begin(epoch.number(), std::move(old_ranks), std::move(old_hosts), ledger_.now(),
                                ledger_.wall_ahead());
  job_.run = std::make_unique<RunningEpoch>(epoch, job_.options, job_.StallLimits(), RunningEpoch::Reserved{},
                                            job_.Links(), &ledger_.history(), &job_.measured.history());
  if (job_.IsElastic()) {
    const absl::Duration window = absl::Milliseconds(ledger_.record().elastic().join_window_ms());
    job_.change = std::make_unique<WantedChange>(epoch.number(), window, 0);
  }
  ledger_.Enter(v1::JOB_STATE_RUNNING, epoch.reason(), begins_anew ? LogLine::Level::kWarn : LogLine::Level::kInform);
  job_.run->Begin(streams, ledger_.effects());
}

std::string EpochCycle::FormingReason(const v1::Epoch& epoch, const std::vector<Lobby::Worker>& workers,
                                      bool begins_anew) const {
  const std::string formed = absl::StrCat("epoch ", epoch.number(), " formed: ");
  const size_t survivors = job_.survivors == nullptr ? 0 : job_.survivors->back();
  if (survivors > 0) {
    const size_t joined = workers.size() - survivors;
    return absl::StrCat(formed, survivors, " of ", Count(job_.survivors->roster().size(), "worker"), " of epoch ",
                        job_.survivors->epoch().number(), survivors == 1 ? " goes on" : " go on",
                        joined == 0 ? "" : absl::StrCat(", ", Count(joined, "worker"), " joined"));
  }
  std::string anew;
  if (begins_anew) {
    anew = absl::StrCat("; no worker of epoch ", job_.survivors->epoch().number(),
                        " is left, and what they held in memory is lost: the program begins anew");
  }
  if (!job_.IsElastic() || workers.size() >= ledger_.record().wanted_size())
    return absl::StrCat(formed, All(workers.size(), "worker"), " joined", anew);
  return absl::StrCat(formed, workers.size(), " of ", Count(ledger_.record().wanted_size(), "worker"),
                      " joined in time, and ", job_.MinSize(), job_.MinSize() == 1 ? " is enough" : " are enough",
                      anew);
}

bool EpochCycle::BeginsAnew(const std::vector<Lobby::Worker>& workers) const {
  return job_.survivors != nullptr && absl::c_none_of(workers, [](const Lobby::Worker& w) { return w.has_history; });
}

void EpochCycle::OnEpochLost(RunningEpoch::Ending ending) {
  if (!job_.IsElastic() || job_.IsFinishing()) return FailRun(ending);
  if (ending.is_hearsay) ending.lost.clear();
  ledger_.Change()->set_resets(ledger_.record().resets() + 1);
  const uint32_t limit = ledger_.record().elastic().reset_limit();
  if (limit > 0 && ledger_.record().resets() > limit) {
    absl::StrAppend(&ending.reason, "; the job has lost ", Count(ledger_.record().resets(), "epoch"), ", and ", limit,
                    " is the most (its reset limit)");
    return FailRun(ending);
  }
  TellEnding(ending, false);
  ledger_.Enter(v1::JOB_STATE_FORMING, ending.reason, LogLine::Level::kWarn);
  for (const uint32_t rank : ending.lost)
    job_.fence.Shut(job_.run->roster().seat(rank).member.incarnation(), ending.reason);
  for (const uint32_t rank : ending.lost) {
    if (ending.is_estranged) job_.failures.Estrange(job_.run->roster().seat(rank).member.host_id(), ledger_.now());
  }
  losses_.NoteLosses(job_.run->roster(), ending.lost, ending.reason, !ending.is_estranged);
  KeepSurvivors();
}

void EpochCycle::FailRun(const RunningEpoch::Ending& ending) {
  const bool was_forsaken = !job_.IsElastic() && job_.run->IsForsaken();
  TellEnding(ending, true);
  losses_.NoteLosses(job_.run->roster(), ending.lost, ending.reason, false);
  CloseEpoch(ending.reason);
  // Workers that wait for the next run belong to the same program. One of its processes is gone, so they would wait in
  // vain. If all had gone, or all for the next run have come, they have been started anew.
  const bool is_next_there = !job_.IsElastic() && !ending.lost.empty() && job_.lobby.size() >= job_.lobby.wanted_size();
  if (!was_forsaken && !is_next_there) dismissal_.DismissLobby(ending.reason);
  ledger_.Enter(v1::JOB_STATE_FAILED, ending.reason, LogLine::Level::kError);
  if (!job_.lobby.IsEmpty()) BeginForming();
}

void EpochCycle::TellEnding(const RunningEpoch::Ending& ending, bool job_ended) {
  job_.run->End(ending, job_ended, ledger_.effects());
  ledger_.Trace([&ending](RunTrace& trace, absl::Time at) { trace.NoteLoss(ending.lost, ending.reason, at); });
}

void EpochCycle::OnEpochLeft() {
  const uint64_t number = job_.run->epoch().number();
  if (job_.IsElastic() && !job_.IsFinishing()) {
    const std::string reason = absl::StrCat("epoch ", number, " ended: its workers left it to form the next one");
    ledger_.Enter(v1::JOB_STATE_FORMING, reason, LogLine::Level::kInform);
    return KeepSurvivors();
  }
  const std::string reason =
      absl::StrCat(All(job_.run->roster().size(), "worker"), " of epoch ", number, " left in order");
  CloseEpoch(reason);
  if (job_.IsElastic()) dismissal_.DismissLobby(absl::StrCat("job ", ledger_.name(), " has finished: ", reason), true);
  ledger_.Enter(v1::JOB_STATE_FINISHED, reason, LogLine::Level::kInform);
  if (!job_.lobby.IsEmpty()) BeginForming();
}

void EpochCycle::CloseEpoch(const std::string& reason) {
  // Workers that wait for the next run have not been asked.
  if (job_.wanted.IsPending()) job_.wanted.Fail(absl::StrCat("the job ended before: ", reason), ledger_.wall_ms());
  const Roster& roster = job_.run->roster();
  ledger_.RecordStands(roster);
  for (uint32_t rank = 0; rank < roster.size(); ++rank) job_.fence.Shut(roster.seat(rank).member.incarnation(), reason);
  job_.last.workers = job_.run->Workers(ledger_.now());
  for (v1::WorkerStatus& worker : job_.last.workers) {
    if (worker.state() == "live" || worker.state() == "draining") worker.set_state("ended");
  }
  job_.KeepLast();
  job_.run.reset();
  job_.change.reset();
}

void EpochCycle::KeepSurvivors() {
  job_.KeepLast();
  job_.survivors =
      std::make_unique<Survivors>(job_.run->epoch(), job_.run->TakeRoster(), job_.StallLimits().loss, ledger_.now());
  job_.run.reset();
  job_.change.reset();
  for (const auto& [order, worker] : job_.lobby.workers()) {
    if (worker.old_rank.has_value()) job_.survivors->Return(*worker.old_rank);
  }
  ledger_.Change()->set_epoch_ended(true);
  ledger_.MarkChanged();
}

void EpochCycle::CloseSurvivors(const std::string& reason) {
  const Roster& roster = job_.survivors->roster();
  for (uint32_t rank = 0; rank < roster.size(); ++rank) {
    job_.fence.Shut(roster.seat(rank).member.incarnation(), reason);
    const StreamId stream = roster.seat(rank).stream;
    if (stream != 0) ledger_.Close(stream, absl::AbortedError(reason));
  }
  job_.survivors.reset();
  job_.shortage_since = absl::InfiniteFuture();
}

void EpochCycle::EndBetweenEpochs(v1::JobState state, const std::string& reason) {
  const bool finished = state == v1::JOB_STATE_FINISHED;
  v1::CoordinatorMessage message;
  v1::EpochEnded* ended = message.mutable_epoch_ended();
  ended->set_epoch(job_.survivors->epoch().number());
  ended->set_reason(reason);
  ended->set_job_ended(true);
  ended->set_job_finished(finished);
  const SharedMessage shared = Share(std::move(message));
  const Roster& roster = job_.survivors->roster();
  for (uint32_t rank = 0; rank < roster.size(); ++rank) {
    const StreamId stream = roster.seat(rank).stream;
    if (stream != 0) ledger_.Send(stream, shared);
  }
  ledger_.RecordStands(roster);
  job_.last.workers = job_.survivors->Workers(ledger_.now());
  CloseSurvivors(reason);
  ledger_.Change()->clear_epoch_ended();
  dismissal_.DismissLobby(reason, finished);
  ledger_.Enter(state, reason, finished ? LogLine::Level::kInform : LogLine::Level::kError);
}

void EpochCycle::TellWaiting(const Lobby::Worker& worker) {
  if (worker.stream == 0) return;
  v1::CoordinatorMessage message;
  message.mutable_waiting()->set_sentence(report_.WaitingSentence());
  ledger_.Send(worker.stream, Share(std::move(message)));
}

}  // namespace farandole
