#include "server/job/state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "server/job/bounds.h"
#include "server/job/member_record.h"
#include "server/job/rank_order.h"
#include "server/job/wording.h"

namespace farandole {

Job::State::State(std::string tenant, std::string name, JobOptions options,
                  std::function<std::string(size_t)> random_bytes)
    : tenant_(std::move(tenant)),
      name_(std::move(name)),
      options_(options),
      random_bytes_(std::move(random_bytes)),
      lobby_(options.max_workers, options.open_limit),
      gate_(tenant_, name_) {
  record_.set_tenant(tenant_);
  record_.set_job(name_);
}

Actions Job::State::Step(const Event& event, absl::Time now) {
  now_ = std::max(now_, now);
  actions_ = Actions();
  record_changed_ = false;
  members_record_.clear();
  // A coordinator that was stopped itself has not listened: what it did not hear in that time is no silence.
  if (run_ != nullptr && now_ > promised_tick_ + options_.heartbeat_interval) run_->Forgive(now_);
  std::visit([this](const auto& e) { On(e); }, event);
  Settle();
  if (record_changed_) PersistRecord();
  ForgetClosedStreams();
  promised_tick_ = actions_.next_tick = Deadline();
  return std::move(actions_);
}

void Job::State::On(const JoinRequested& event) {
  const bool is_first = lobby_.IsEmpty();
  const absl::Status status = Admit(event.request);
  if (!status.ok()) return Answer<v1::JoinResponse>(event.call, status);
  if (run_ == nullptr && is_first) BeginForming();
  v1::JoinResponse response;
  response.set_heartbeat_interval_ms(absl::ToInt64Milliseconds(options_.heartbeat_interval));
  response.set_silence_limit_ms(absl::ToInt64Milliseconds(options_.silence_limit));
  response.set_version(kVersion);
  Answer<v1::JoinResponse>(event.call, std::move(response));
}

absl::Status Job::State::Admit(const v1::JoinRequest& request) {
  if (absl::Status status = CheckJoin(request); !status.ok()) return status;
  const std::string& incarnation = request.member().incarnation();
  if (const std::string* reason = fence_.ReasonFor(incarnation); reason != nullptr) {
    return absl::AbortedError(
        absl::StrCat(DescribeWorker(request.member()), " may not come back and must start anew: ", *reason));
  }
  if (run_ != nullptr) {
    const Roster& roster = run_->roster();
    if (const auto rank = roster.RankOf(incarnation); rank.has_value()) {
      if (!roster.seat(*rank).left) return absl::OkStatus();
      return absl::AbortedError(
          absl::StrCat(roster.Describe(*rank), " has left epoch ", run_->epoch().number(), " and must start anew"));
    }
    if (roster.staying() == roster.size() && !run_->IsForsaken()) {
      return absl::AlreadyExistsError(
          absl::StrCat("job ", name_, " runs already, with the ", Count(roster.size(), "worker"), " that it wants"));
    }
  }
  return lobby_.Join(request, now_);
}

void Job::State::BeginForming() {
  record_.set_wanted_size(lobby_.wanted_size());
  record_.set_stall_warning_ms(absl::ToInt64Milliseconds(lobby_.stall_warning()));
  if (record_.created_unix_ms() == 0) record_.set_created_unix_ms(absl::ToUnixMillis(now_));
  const std::string first = DescribeWorker(lobby_.workers().begin()->second.member);
  Enter(v1::JOB_STATE_FORMING,
        absl::StrCat("a run with ", Count(lobby_.wanted_size(), "worker"), " begins to form: the first is ", first),
        LogLine::Level::kInform);
}

void Job::State::On(const StreamOpened& event) {
  const absl::Status status = Receive(event.stream, event.hello);
  if (!status.ok()) actions_.outputs.push_back(CloseStream{event.stream, status});
}

absl::Status Job::State::Receive(StreamId stream, const v1::Hello& hello) {
  if (absl::Status status = CheckHello(hello); !status.ok()) return status;
  const std::string& incarnation = hello.incarnation();
  if (const std::string* reason = fence_.ReasonFor(incarnation); reason != nullptr) return absl::AbortedError(*reason);
  if (lobby_.Has(incarnation)) {
    if (hello.epoch() != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("hello names epoch ", hello.epoch(), ", and the worker waits for its first one"));
    }
    streams_[stream] = incarnation;
    if (const StreamId old = lobby_.Open(incarnation, stream); old != 0) {
      actions_.outputs.push_back(CloseStream{old, absl::AbortedError("replaced by a newer stream of the same worker")});
    }
    if (!lobby_.IsComplete() || run_ != nullptr) TellWaiting(lobby_.Get(incarnation));
    return absl::OkStatus();
  }
  const uint64_t last_epoch = record_.epoch().number();
  const auto rank = run_ == nullptr ? std::nullopt : run_->roster().RankOf(incarnation);
  if (!rank.has_value()) {
    if (hello.epoch() == 0)
      return absl::NotFoundError(absl::StrCat("no Join of worker ", incarnation, " is known in job ", name_));
    return absl::AbortedError(absl::StrCat("worker ", incarnation, " names epoch ", hello.epoch(), " of job ", name_,
                                           ", in which it does not run; the last epoch is ", last_epoch));
  }
  if (run_->roster().seat(*rank).left)
    return absl::AbortedError(absl::StrCat(run_->roster().Describe(*rank), " has left epoch ", last_epoch));
  if (hello.epoch() != 0 && hello.epoch() != last_epoch) {
    return absl::AbortedError(
        absl::StrCat(run_->roster().Describe(*rank), " names epoch ", hello.epoch(), ", and is in epoch ", last_epoch));
  }
  streams_[stream] = incarnation;
  if (!lobby_.IsEmpty() && run_->IsForsaken()) {
    DismissLobby(absl::StrCat("job ", name_, " runs already: ", run_->roster().Describe(*rank), " has come back"));
  }
  run_->Attach(*rank, stream, hello, Effects());
  return absl::OkStatus();
}

void Job::State::On(const MessageReceived& event) {
  const auto it = streams_.find(event.stream);
  if (it == streams_.end()) return;
  if (lobby_.Has(it->second)) {
    if (!event.message.has_leave()) return;
    Tell(LogLine::Level::kInform,
         absl::StrCat(DescribeWorker(lobby_.Get(it->second).member), " left before the epoch was formed"));
    lobby_.Remove(it->second);
    actions_.outputs.push_back(CloseStream{event.stream, absl::OkStatus()});
    return;
  }
  const auto rank = run_ == nullptr ? std::nullopt : run_->roster().RankOf(it->second);
  if (rank.has_value() && run_->roster().seat(*rank).stream == event.stream)
    run_->Receive(*rank, event.message, Effects());
}

void Job::State::On(const StreamClosed& event) {
  const auto it = streams_.find(event.stream);
  if (it == streams_.end()) return;
  const std::string incarnation = std::move(it->second);
  streams_.erase(it);
  if (lobby_.Has(incarnation)) {
    if (lobby_.Get(incarnation).stream != event.stream) return;
    const std::string who = DescribeWorker(lobby_.Get(incarnation).member);
    Tell(LogLine::Level::kInform,
         absl::StrCat(who, " went away before the epoch was formed: its stream ended (", Plain(event.evidence), ")"));
    lobby_.Remove(incarnation);
    return;
  }
  const auto rank = run_ == nullptr ? std::nullopt : run_->roster().RankOf(incarnation);
  if (rank.has_value() && run_->roster().seat(*rank).stream == event.stream)
    run_->Detach(*rank, event.evidence, Effects());
}

void Job::State::On(const AbortRequested& event) {
  if (run_ != nullptr || record_.state() == v1::JOB_STATE_FORMING) {
    const std::string reason = absl::StrCat("an operator ended the job: ",
                                            event.reason.empty() ? "no reason given" : Plain(event.reason, 1024));
    if (run_ != nullptr) {
      OnEpochLost({reason, {}});
    } else {
      DismissLobby(reason);
      Enter(v1::JOB_STATE_FAILED, reason, LogLine::Level::kError);
    }
  }
  Answer<v1::AbortJobResponse>(event.call, v1::AbortJobResponse());
}

void Job::State::On(const Ticked&) {}

void Job::State::Settle() {
  if (run_ != nullptr) {
    run_->Advance(Effects());
    if (run_->ending().has_value()) {
      OnEpochLost(RunningEpoch::Ending(*run_->ending()));
    } else if (run_->IsLeft()) {
      OnEpochLeft();
    }
  }
  SettleLobby();
}

void Job::State::SettleLobby() {
  for (const std::string& sentence : lobby_.RemoveUnopened(now_)) Tell(LogLine::Level::kWarn, sentence);
  if (run_ == nullptr && lobby_.IsComplete()) return Form();
  if (lobby_.Timeout() <= now_) {
    const std::string reason = lobby_.TimeoutSentence();
    DismissLobby(reason);
    if (run_ == nullptr) return Enter(v1::JOB_STATE_FAILED, reason, LogLine::Level::kError);
    return Tell(LogLine::Level::kWarn, absl::StrCat("nobody waits for the next epoch any more: ", reason));
  }
  if (!lobby_.IsNoticeDue(now_)) return;
  for (const auto& [order, worker] : lobby_.workers()) TellWaiting(worker);
}

void Job::State::Form() {
  const absl::Duration stall_warning = lobby_.stall_warning();
  const std::vector<Lobby::Worker> workers = lobby_.Take();
  std::vector<Candidate> candidates;
  candidates.reserve(workers.size());
  for (const Lobby::Worker& worker : workers) candidates.push_back({worker.member.host_id(), worker.launch_index});
  v1::Epoch epoch;
  epoch.set_number(record_.epoch().number() + 1);
  epoch.set_secret(random_bytes_(32));
  epoch.set_reason(absl::StrCat("epoch ", epoch.number(), " formed: ", All(workers.size(), "worker"), " joined"));
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
    Dismiss(workers, reason);
    return Enter(v1::JOB_STATE_FAILED, reason, LogLine::Level::kError);
  }
  *record_.mutable_epoch() = epoch;
  record_.set_size(workers.size());
  record_.set_wanted_size(workers.size());
  record_.set_stall_warning_ms(absl::ToInt64Milliseconds(stall_warning));
  last_workers_.clear();
  run_ = std::make_unique<RunningEpoch>(epoch, options_, stall_warning, RunningEpoch::Reserved{}, &history_);
  Enter(v1::JOB_STATE_RUNNING, epoch.reason(), LogLine::Level::kInform);
  run_->Begin(streams, Effects());
}

void Job::State::OnEpochLost(const RunningEpoch::Ending& ending) {
  const bool was_forsaken = run_->IsForsaken();
  run_->End(ending, Effects());
  CloseEpoch(ending.reason);
  // Those who wait for the next run are of the same program; one of its processes is gone, so they would wait in vain.
  // Where all had gone, they have been started anew.
  if (!was_forsaken) DismissLobby(ending.reason);
  Enter(v1::JOB_STATE_FAILED, ending.reason, LogLine::Level::kError);
  if (!lobby_.IsEmpty()) BeginForming();
}

void Job::State::OnEpochLeft() {
  const std::string reason =
      absl::StrCat(All(run_->roster().size(), "worker"), " of epoch ", run_->epoch().number(), " left in order");
  CloseEpoch(reason);
  Enter(v1::JOB_STATE_FINISHED, reason, LogLine::Level::kInform);
  if (!lobby_.IsEmpty()) BeginForming();
}

void Job::State::CloseEpoch(const std::string& reason) {
  const Roster& roster = run_->roster();
  record_.clear_left();
  for (uint32_t rank = 0; rank < roster.size(); ++rank) {
    fence_.Shut(roster.seat(rank).member.incarnation(), reason);
    if (roster.seat(rank).left) record_.add_left(rank);
  }
  last_workers_ = run_->Workers(now_);
  for (v1::WorkerStatus& worker : last_workers_) {
    if (worker.state() == "live") worker.set_state("ended");
  }
  last_stall_ = run_->last_stall();
  last_stall_at_ = run_->last_stall_at();
  last_negotiation_messages_ = run_->negotiation_messages();
  run_.reset();
}

void Job::State::Dismiss(const std::vector<Lobby::Worker>& workers, const std::string& reason) {
  v1::CoordinatorMessage ended;
  ended.mutable_epoch_ended()->set_reason(reason);
  ended.mutable_epoch_ended()->set_job_ended(true);
  const SharedMessage message = Share(std::move(ended));
  for (const Lobby::Worker& worker : workers) {
    fence_.Shut(worker.member.incarnation(), reason);
    if (worker.stream == 0) continue;
    actions_.outputs.push_back(Send{worker.stream, message});
    actions_.outputs.push_back(CloseStream{worker.stream, absl::AbortedError(reason)});
  }
}

void Job::State::Enter(v1::JobState state, const std::string& reason, LogLine::Level level) {
  record_.set_state(state);
  record_.set_reason(Plain(reason, History::kMostSentenceBytes));
  record_changed_ = true;
  Tell(level, reason);
}

void Job::State::Tell(LogLine::Level level, const std::string& sentence) {
  history_.Add(sentence, now_);
  actions_.outputs.push_back(LogLine{level, sentence});
}

void Job::State::TellWaiting(const Lobby::Worker& worker) {
  if (worker.stream == 0) return;
  v1::CoordinatorMessage message;
  message.mutable_waiting()->set_sentence(WaitingSentence());
  actions_.outputs.push_back(Send{worker.stream, Share(std::move(message))});
}

std::string Job::State::WaitingSentence() const {
  if (run_ == nullptr) return lobby_.WaitingSentence();
  return absl::StrCat(lobby_.WaitingSentence(), "; epoch ", run_->epoch().number(), " still runs on ",
                      ShowRanks(run_->roster().Staying()));
}

CheckpointGate::Present Job::State::Present() const {
  CheckpointGate::Present present;
  present.epoch = record_.epoch().number();
  present.is_running = run_ != nullptr && !run_->roster().seat(0).left;
  if (record_.epoch().members_size() > 0) present.writer = record_.epoch().members(0).incarnation();
  return present;
}

void Job::State::ForgetClosedStreams() {
  for (const Output& output : actions_.outputs) {
    if (const auto* close = std::get_if<CloseStream>(&output); close != nullptr) streams_.erase(close->stream);
  }
}

absl::Time Job::State::Deadline() const {
  return std::min(lobby_.Deadline(), run_ == nullptr ? absl::InfiniteFuture() : run_->Deadline());
}

}  // namespace farandole
