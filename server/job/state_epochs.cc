// The parts of Job::State that decide how epochs follow each other.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/job/rules/member_record.h"
#include "server/job/rules/rank_order.h"
#include "server/job/rules/wording.h"
#include "server/job/state.h"

namespace farandole {
namespace {

// Where nobody goes on from the epoch before: from the first comer on, how long the wanted number is waited for.
constexpr absl::Duration kComeback = absl::Seconds(10);

}  // namespace

void Job::State::BeginForming() {
  if (record_.created_unix_ms() == 0) record_.set_created_unix_ms(absl::ToUnixMillis(now_ + wall_ahead_));
  record_.clear_epoch_ended();
  record_.clear_resets();
  hosts_.Clear();
  estranged_.Clear();
  lost_.Clear();
  links_.Clear();
  AdoptTerms();
  const std::string first = DescribeWorker(lobby_.workers().begin()->second.member);
  const std::string bounds = IsElastic() ? absl::StrCat(" (", MinSize(), " to ", MaxSize(), ")") : "";
  Enter(v1::JOB_STATE_FORMING,
        absl::StrCat("a run with ", Count(lobby_.wanted_size(), "worker"), bounds, " begins to form: the first is ",
                     first),
        LogLine::Level::kInform);
}

void Job::State::AdoptTerms() {
  record_.set_wanted_size(lobby_.wanted_size());
  record_.set_stall_warning_ms(absl::ToInt64Milliseconds(lobby_.stall_warning()));
  record_.clear_elastic();
  if (lobby_.elastic().has_value()) *record_.mutable_elastic() = *lobby_.elastic();
  hosts_.Configure(record_.elastic());
  exits_.clear();
  record_changed_ = true;
}

void Job::State::Settle() {
  if (run_ != nullptr) {
    run_->Advance(Effects());
    if (run_->ending().has_value()) {
      OnEpochLost(RunningEpoch::Ending(*run_->ending()));
    } else if (run_->IsLeft()) {
      OnEpochLeft();
    } else if (IsElastic()) {
      TellWantedChange();
    }
  }
  if (survivors_ != nullptr) SettleSurvivors();
  SettleLobby();
}

void Job::State::SettleLobby() {
  for (const Lobby::Worker& worker : lobby_.RemoveUnopened(now_)) {
    const std::string claim =
        absl::StrCat("did not open its stream within ", ShowDuration(lobby_.open_limit()), "; it no longer counts");
    Tell(LogLine::Level::kWarn, absl::StrCat(DescribeWorker(worker.member), " joined and ", claim));
    LeaveLobby(worker, true);
  }
  // Lost workers and replacements rejoin quickly; wait at most kComeback.
  if (IsNobodyLeft() && !lobby_.IsEmpty()) lobby_.HastenTimeout(now_ + kComeback);
  const bool goes_on = run_ != nullptr || survivors_ != nullptr || lobby_.opened() >= MinSize();
  if (IsElastic() && goes_on && lobby_.Timeout() <= now_) lobby_.Expire();
  if (run_ == nullptr && IsReadyToForm()) return Form();
  if (lobby_.Timeout() <= now_) {
    const std::string reason = lobby_.TimeoutSentence();
    DismissLobby(reason);
    if (run_ == nullptr) return Enter(v1::JOB_STATE_FAILED, reason, LogLine::Level::kError);
    return Tell(LogLine::Level::kWarn, absl::StrCat("nobody waits for the next epoch any more: ", reason));
  }
  if (!lobby_.IsNoticeDue(now_)) return;
  for (const auto& [order, worker] : lobby_.workers()) TellWaiting(worker);
}

bool Job::State::IsReadyToForm() const {
  if (!IsElastic() || lobby_.IsEmpty()) return lobby_.IsComplete();
  if (survivors_ != nullptr && (survivors_->awaited() > 0 || lobby_.unopened_survivors() > 0)) return false;
  if (lobby_.opened() < MinSize()) return false;
  if (survivors_ != nullptr && survivors_->back() > 0) return true;
  // Nobody goes on from an epoch before: as many as are wanted are waited for, as long as the lobby does.
  return lobby_.opened() >= record_.wanted_size() || lobby_.IsExpired();
}

void Job::State::Form() {
  const absl::Duration stall_warning =
      IsElastic() ? absl::Milliseconds(record_.stall_warning_ms()) : lobby_.stall_warning();
  const std::vector<Lobby::Worker> workers = IsElastic() ? lobby_.TakeOpened(MaxSize()) : lobby_.Take();
  std::vector<Candidate> candidates;
  candidates.reserve(workers.size());
  for (const Lobby::Worker& worker : workers)
    candidates.push_back({worker.member.host_id(), worker.launch_index, worker.old_rank});
  v1::Epoch epoch;
  epoch.set_max_slots(options_.max_slots);
  epoch.set_number(record_.epoch().number() + 1);
  epoch.set_secret(random_bytes_(32));
  const bool begins_anew = BeginsAnew(workers);
  epoch.set_reason(FormingReason(epoch, workers, begins_anew));
  std::vector<StreamId> streams;
  for (const size_t index : OrderRanks(candidates)) {
    *epoch.add_members() = workers[index].member;
    streams.push_back(workers[index].stream);
  }
  members_record_ = PackMembers(epoch);
  if (members_record_.size() > kMostMembersRecordBytes) {
    const std::string reason =
        absl::StrCat("the members of the job describe themselves in ", members_record_.size(),
                     " bytes after compression; ", kMostMembersRecordBytes, " is the most that is kept");
    members_record_.clear();
    Dismiss(workers, reason, false);
    if (survivors_ != nullptr) return EndBetweenEpochs(v1::JOB_STATE_FAILED, reason);
    return Enter(v1::JOB_STATE_FAILED, reason, LogLine::Level::kError);
  }
  if (survivors_ != nullptr)
    CloseSurvivors(absl::StrCat("epoch ", record_.epoch().number(), " has ended: ", record_.reason()));
  *record_.mutable_epoch() = epoch;
  record_.set_size(workers.size());
  if (!IsElastic()) record_.set_wanted_size(workers.size());
  record_.set_stall_warning_ms(absl::ToInt64Milliseconds(stall_warning));
  record_.clear_epoch_ended();
  record_.clear_change_serial();
  last_workers_.clear();
  run_ = std::make_unique<RunningEpoch>(epoch, options_, StallLimits(), RunningEpoch::Reserved{}, Links(), &history_);
  if (IsElastic()) {
    const absl::Duration window = absl::Milliseconds(record_.elastic().join_window_ms());
    change_ = std::make_unique<WantedChange>(epoch.number(), window, 0);
  }
  Enter(v1::JOB_STATE_RUNNING, epoch.reason(), begins_anew ? LogLine::Level::kWarn : LogLine::Level::kInform);
  run_->Begin(streams, Effects());
}

std::string Job::State::FormingReason(const v1::Epoch& epoch, const std::vector<Lobby::Worker>& workers,
                                      bool begins_anew) const {
  const std::string formed = absl::StrCat("epoch ", epoch.number(), " formed: ");
  const size_t survivors = survivors_ == nullptr ? 0 : survivors_->back();
  if (survivors > 0) {
    const size_t joined = workers.size() - survivors;
    return absl::StrCat(formed, survivors, " of ", Count(survivors_->roster().size(), "worker"), " of epoch ",
                        survivors_->epoch().number(), survivors == 1 ? " goes on" : " go on",
                        joined == 0 ? "" : absl::StrCat(", ", Count(joined, "worker"), " joined"));
  }
  std::string anew;
  if (begins_anew) {
    anew = absl::StrCat("; no worker of epoch ", survivors_->epoch().number(),
                        " is left, and what they held in memory is lost: the program begins anew");
  }
  if (!IsElastic() || workers.size() >= record_.wanted_size())
    return absl::StrCat(formed, All(workers.size(), "worker"), " joined", anew);
  return absl::StrCat(formed, workers.size(), " of ", Count(record_.wanted_size(), "worker"), " joined in time, and ",
                      MinSize(), MinSize() == 1 ? " is enough" : " are enough", anew);
}

bool Job::State::BeginsAnew(const std::vector<Lobby::Worker>& workers) const {
  return survivors_ != nullptr && absl::c_none_of(workers, [](const Lobby::Worker& w) { return w.has_history; });
}

RunningEpoch::StallLimits Job::State::StallLimits() const {
  const uint64_t limit_ms = record_.elastic().stall_limit_ms();
  return {absl::Milliseconds(record_.stall_warning_ms()),
          limit_ms == 0 ? absl::InfiniteDuration() : absl::Milliseconds(static_cast<int64_t>(limit_ms))};
}

void Job::State::OnEpochLost(RunningEpoch::Ending ending) {
  if (!IsElastic() || IsFinishing()) return FailRun(ending);
  if (ending.is_hearsay) ending.lost.clear();
  record_.set_resets(record_.resets() + 1);
  const uint32_t limit = record_.elastic().reset_limit();
  if (limit > 0 && record_.resets() > limit) {
    absl::StrAppend(&ending.reason, "; the job has lost ", Count(record_.resets(), "epoch"), ", and ", limit,
                    " is the most (its reset limit)");
    return FailRun(ending);
  }
  run_->End(ending, false, Effects());
  Enter(v1::JOB_STATE_FORMING, ending.reason, LogLine::Level::kWarn);
  for (const uint32_t rank : ending.lost) fence_.Shut(run_->roster().seat(rank).member.incarnation(), ending.reason);
  for (const uint32_t rank : ending.lost) {
    if (ending.is_estranged) estranged_.Add(run_->roster().seat(rank).member.host_id(), now_);
  }
  NoteLosses(run_->roster(), ending.lost, ending.reason, !ending.is_estranged);
  KeepSurvivors();
}

void Job::State::FailRun(const RunningEpoch::Ending& ending) {
  const bool was_forsaken = !IsElastic() && run_->IsForsaken();
  run_->End(ending, true, Effects());
  NoteLosses(run_->roster(), ending.lost, ending.reason, false);
  CloseEpoch(ending.reason);
  // Workers that wait for the next run belong to the same program. One of its processes is gone, so they would wait in
  // vain. If all had gone, or all for the next run have come, they have been started anew.
  const bool is_next_there = !IsElastic() && !ending.lost.empty() && lobby_.size() >= lobby_.wanted_size();
  if (!was_forsaken && !is_next_there) DismissLobby(ending.reason);
  Enter(v1::JOB_STATE_FAILED, ending.reason, LogLine::Level::kError);
  if (!lobby_.IsEmpty()) BeginForming();
}

void Job::State::OnEpochLeft() {
  const uint64_t number = run_->epoch().number();
  if (IsElastic() && !IsFinishing()) {
    const std::string reason = absl::StrCat("epoch ", number, " ended: its workers left it to form the next one");
    Enter(v1::JOB_STATE_FORMING, reason, LogLine::Level::kInform);
    return KeepSurvivors();
  }
  const std::string reason = absl::StrCat(All(run_->roster().size(), "worker"), " of epoch ", number, " left in order");
  CloseEpoch(reason);
  if (IsElastic()) DismissLobby(absl::StrCat("job ", name_, " has finished: ", reason), true);
  Enter(v1::JOB_STATE_FINISHED, reason, LogLine::Level::kInform);
  if (!lobby_.IsEmpty()) BeginForming();
}

void Job::State::CloseEpoch(const std::string& reason) {
  const Roster& roster = run_->roster();
  SaveStands(roster);
  for (uint32_t rank = 0; rank < roster.size(); ++rank) fence_.Shut(roster.seat(rank).member.incarnation(), reason);
  last_workers_ = run_->Workers(now_);
  for (v1::WorkerStatus& worker : last_workers_) {
    if (worker.state() == "live" || worker.state() == "draining") worker.set_state("ended");
  }
  last_stall_ = run_->last_stall();
  last_stall_at_ = run_->last_stall_at();
  last_negotiation_messages_ = run_->negotiation_messages();
  run_.reset();
  change_.reset();
}

void Job::State::KeepSurvivors() {
  last_stall_ = run_->last_stall();
  last_stall_at_ = run_->last_stall_at();
  last_negotiation_messages_ = run_->negotiation_messages();
  survivors_ = std::make_unique<Survivors>(run_->epoch(), run_->TakeRoster(), StallLimits().loss, now_);
  run_.reset();
  change_.reset();
  for (const auto& [order, worker] : lobby_.workers()) {
    if (worker.old_rank.has_value()) survivors_->Return(*worker.old_rank);
  }
  record_.set_epoch_ended(true);
  record_changed_ = true;
}

void Job::State::CloseSurvivors(const std::string& reason) {
  const Roster& roster = survivors_->roster();
  for (uint32_t rank = 0; rank < roster.size(); ++rank) {
    fence_.Shut(roster.seat(rank).member.incarnation(), reason);
    const StreamId stream = roster.seat(rank).stream;
    if (stream != 0) actions_.outputs.push_back(CloseStream{stream, absl::AbortedError(reason)});
  }
  survivors_.reset();
  shortage_since_ = absl::InfiniteFuture();
}

void Job::State::Dismiss(const std::vector<Lobby::Worker>& workers, const std::string& reason, bool finished) {
  for (const Lobby::Worker& worker : workers) {
    const std::string& incarnation = worker.member.incarnation();
    finished ? fence_.Dismiss(incarnation, reason) : fence_.Shut(incarnation, reason);
    if (worker.stream != 0) TellDismissal(worker.stream, reason, finished);
  }
}

void Job::State::TellDismissal(StreamId stream, const std::string& reason, bool finished) {
  v1::CoordinatorMessage ended;
  ended.mutable_epoch_ended()->set_reason(reason);
  ended.mutable_epoch_ended()->set_job_ended(true);
  ended.mutable_epoch_ended()->set_job_finished(finished);
  actions_.outputs.push_back(Send{stream, Share(std::move(ended))});
  actions_.outputs.push_back(CloseStream{stream, finished ? absl::CancelledError(reason) : absl::AbortedError(reason)});
}

}  // namespace farandole
