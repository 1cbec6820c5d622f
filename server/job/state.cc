#include "server/job/state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "server/job/rules/bounds.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// A survivor that does not open its stream holds up the others; thousands at a time take seconds.
constexpr int kOpenSilences = 3;
// How late a tick comes at most while the coordinator runs.
constexpr absl::Duration kPunctual = absl::Milliseconds(10);
// Messages that arrived while it did not run are read within this time, however short its absence was.
constexpr absl::Duration kLeastPatience = absl::Milliseconds(100);

}  // namespace

Job::State::State(std::string tenant, std::string name, JobOptions options,
                  std::function<std::string(size_t)> random_bytes)
    : tenant_(std::move(tenant)),
      name_(std::move(name)),
      options_(options),
      random_bytes_(std::move(random_bytes)),
      lobby_(options.max_workers, options.open_limit, kOpenSilences * options.silence_limit),
      gate_(tenant_, name_) {
  record_.set_tenant(tenant_);
  record_.set_job(name_);
}

Actions Job::State::Step(const Event& event, absl::Time now, absl::Duration wall_ahead) {
  SetWallAhead(wall_ahead);
  now_ = std::max(now_, now);
  actions_ = Actions();
  record_changed_ = false;
  members_record_.clear();
  // A coordinator that was stopped itself has not listened: what was said meanwhile is still to be read.
  if (const absl::Duration late = now_ - promised_tick_; late > kPunctual) {
    const absl::Time judged_from = now_ + std::clamp(late, kLeastPatience, options_.silence_limit);
    if (run_ != nullptr) run_->Excuse(judged_from);
    if (survivors_ != nullptr) survivors_->Excuse(judged_from);
  }
  std::visit([this](const auto& e) { On(e); }, event);
  Settle();
  if (record_changed_) PersistRecord();
  ForgetClosedStreams();
  promised_tick_ = actions_.next_tick = Deadline();
  return std::move(actions_);
}

void Job::State::On(const JoinRequested& event) {
  const bool is_first = lobby_.IsEmpty();
  // A dismissed worker reads on its stream that the job has finished.
  const bool is_dismissed = fence_.IsDismissed(event.request.member().incarnation());
  const absl::Status status = is_dismissed ? absl::OkStatus() : Admit(event.request);
  if (!status.ok()) return Answer<v1::JoinResponse>(event.call, status);
  if (is_first && !is_dismissed && run_ == nullptr && survivors_ == nullptr) BeginForming();
  if (is_first && !is_dismissed && IsNobodyLeft()) AdoptTerms();
  v1::JoinResponse response;
  response.set_heartbeat_interval_ms(absl::ToInt64Milliseconds(options_.heartbeat_interval));
  response.set_silence_limit_ms(absl::ToInt64Milliseconds(options_.silence_limit));
  response.set_version(kVersion);
  Answer<v1::JoinResponse>(event.call, std::move(response));
}

absl::Status Job::State::Admit(const v1::JoinRequest& request) {
  if (absl::Status status = CheckJoin(request); !status.ok()) return status;
  lost_.Remove(request.launch_index());
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
    if (!IsElastic() && roster.staying() == roster.size() && !run_->IsForsaken()) {
      return absl::AlreadyExistsError(
          absl::StrCat("job ", name_, " runs already, with the ", Count(roster.size(), "worker"), " that it wants"));
    }
  }
  std::optional<uint32_t> old_rank;
  absl::Status status;
  if (IsOngoing() && IsElastic()) {
    status = AdmitElastic(request, &old_rank);
  } else if (request.has_elastic() && run_ == nullptr) {
    status = CheckNewRun(request);
  }
  if (status.ok()) status = lobby_.Join(request, old_rank, now_);
  if (status.ok() && old_rank.has_value()) OnSurvivorJoined(*old_rank);
  return status;
}

void Job::State::On(const StreamOpened& event) {
  const absl::Status status = Receive(event.stream, event.hello);
  if (!status.ok()) actions_.outputs.push_back(CloseStream{event.stream, status});
}

absl::Status Job::State::Receive(StreamId stream, const v1::Hello& hello) {
  if (absl::Status status = CheckHello(hello); !status.ok()) return status;
  const std::string& incarnation = hello.incarnation();
  if (const std::string* reason = fence_.ReasonFor(incarnation); reason != nullptr) {
    if (!fence_.IsDismissed(incarnation)) return absl::AbortedError(*reason);
    return TellDismissal(stream, *reason, true), absl::OkStatus();
  }
  if (lobby_.Has(incarnation)) return ReceiveWaiting(stream, hello);
  const Roster* const roster = PresentRoster();
  const auto rank = roster == nullptr ? std::nullopt : roster->RankOf(incarnation);
  if (rank.has_value()) return ReceiveMember(*rank, stream, hello);
  if (hello.epoch() == 0)
    return absl::NotFoundError(absl::StrCat("no Join of worker ", incarnation, " is known in job ", name_));
  return absl::AbortedError(absl::StrCat("worker ", incarnation, " names epoch ", hello.epoch(), " of job ", name_,
                                         ", in which it does not run; the last epoch is ", record_.epoch().number()));
}

absl::Status Job::State::ReceiveWaiting(StreamId stream, const v1::Hello& hello) {
  if (hello.epoch() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("hello names epoch ", hello.epoch(), ", and the worker waits for its first one"));
  }
  streams_[stream] = hello.incarnation();
  if (const StreamId old = lobby_.Open(hello.incarnation(), stream); old != 0) {
    actions_.outputs.push_back(CloseStream{old, absl::AbortedError("replaced by a newer stream of the same worker")});
  }
  if (run_ != nullptr || !IsReadyToForm()) TellWaiting(lobby_.Get(hello.incarnation()));
  return absl::OkStatus();
}

absl::Status Job::State::ReceiveMember(uint32_t rank, StreamId stream, const v1::Hello& hello) {
  const uint64_t last_epoch = record_.epoch().number();
  const Roster& roster = *PresentRoster();
  if (roster.seat(rank).left)
    return absl::AbortedError(absl::StrCat(roster.Describe(rank), " has left epoch ", last_epoch));
  if (hello.epoch() != 0 && hello.epoch() != last_epoch) {
    return absl::AbortedError(
        absl::StrCat(roster.Describe(rank), " names epoch ", hello.epoch(), ", and is in epoch ", last_epoch));
  }
  streams_[stream] = hello.incarnation();
  if (run_ == nullptr) return ReceiveSurvivor(rank, stream, hello), absl::OkStatus();
  if (!IsElastic() && !lobby_.IsEmpty() && run_->IsForsaken())
    DismissLobby(absl::StrCat("job ", name_, " runs already: ", roster.Describe(rank), " has come back"));
  run_->Attach(rank, stream, hello, Effects());
  const bool is_told = change_ != nullptr && change_->told().has_value();
  // It may have been cut off when the others were told.
  if (is_told && roster.seat(rank).stream == stream) run_->SendTo(rank, Share(*change_->told()), Effects());
  return absl::OkStatus();
}

void Job::State::On(const MessageReceived& event) {
  const auto it = streams_.find(event.stream);
  if (it == streams_.end()) return;
  if (lobby_.Has(it->second)) {
    if (!event.message.has_leave()) return;
    const Lobby::Worker worker = lobby_.Get(it->second);
    Tell(LogLine::Level::kInform, absl::StrCat(DescribeWorker(worker.member), " left before the epoch was formed"));
    LeaveLobby(worker, event.message.leave().returns());
    actions_.outputs.push_back(CloseStream{event.stream, absl::OkStatus()});
    return;
  }
  const Roster* const roster = PresentRoster();
  const auto rank = roster == nullptr ? std::nullopt : roster->RankOf(it->second);
  if (!rank.has_value() || roster->seat(*rank).stream != event.stream) return;
  if (run_ == nullptr) return HearSurvivor(*rank, event.message);
  run_->Receive(*rank, event.message, Effects());
  const v1::Departing& departing = event.message.departing();
  if (!event.message.has_departing() || !IsElastic() || departing.epoch() != run_->epoch().number()) return;
  if (CheckMessage(event.message, roster->size()).ok()) Depart(*rank, departing);
}

void Job::State::On(const StreamClosed& event) {
  const auto it = streams_.find(event.stream);
  if (it == streams_.end()) return;
  const std::string incarnation = std::move(it->second);
  streams_.erase(it);
  if (lobby_.Has(incarnation)) {
    if (lobby_.Get(incarnation).stream != event.stream) return;
    const Lobby::Worker worker = lobby_.Get(incarnation);
    Tell(LogLine::Level::kInform,
         absl::StrCat(DescribeWorker(worker.member), " went away before the epoch was formed: its stream ended (",
                      Plain(event.evidence), ")"));
    return LeaveLobby(worker, true);
  }
  const Roster* const roster = PresentRoster();
  const auto rank = roster == nullptr ? std::nullopt : roster->RankOf(incarnation);
  if (!rank.has_value() || roster->seat(*rank).stream != event.stream) return;
  if (run_ != nullptr) return run_->Detach(*rank, event.evidence, Effects());
  const std::string claim = survivors_->Detach(*rank, event.evidence, now_);
  if (!claim.empty()) LoseSurvivor(*rank, claim);
}

void Job::State::LeaveLobby(const Lobby::Worker& worker, bool returns) {
  lobby_.Remove(worker.member.incarnation());
  if (!worker.old_rank.has_value()) return;
  if (survivors_ == nullptr) {
    if (!returns) Forsake(*worker.old_rank, "it left before the next epoch was formed");
  } else if (returns) {
    survivors_->Await(*worker.old_rank, now_);
  } else {
    survivors_->Leave(*worker.old_rank, false, now_);
  }
}

void Job::State::Forsake(uint32_t rank, const std::string& claim) {
  run_->Forsake(rank, claim);
  record_changed_ = true;
}

void Job::State::On(const AbortRequested& event) {
  if (IsOngoing()) {
    const std::string said = event.reason.empty() ? "no reason given" : Plain(event.reason, 1024);
    const std::string reason = event.by_launcher ? said : absl::StrCat("an operator ended the job: ", said);
    if (run_ != nullptr) {
      FailRun({reason, {}});
    } else if (survivors_ != nullptr) {
      EndBetweenEpochs(v1::JOB_STATE_FAILED, reason);
    } else {
      DismissLobby(reason);
      // A launcher says it itself.
      Enter(v1::JOB_STATE_FAILED, reason, event.by_launcher ? LogLine::Level::kInform : LogLine::Level::kError);
    }
  }
  Answer<v1::AbortJobResponse>(event.call, v1::AbortJobResponse());
}

void Job::State::On(const Ticked&) {}

void Job::State::Enter(v1::JobState state, const std::string& reason, LogLine::Level level) {
  record_.set_state(state);
  record_.set_reason(Plain(reason, History::kMostSentenceBytes));
  record_changed_ = true;
  if (!IsOngoing()) ended_at_ = now_;
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

bool Job::State::IsOngoing() const { return run_ != nullptr || record_.state() == v1::JOB_STATE_FORMING; }

bool Job::State::IsNobodyLeft() const {
  return survivors_ != nullptr && survivors_->awaited() == 0 && survivors_->back() == 0;
}

const Roster* Job::State::PresentRoster() const {
  if (run_ != nullptr) return &run_->roster();
  return survivors_ == nullptr ? nullptr : &survivors_->roster();
}

bool Job::State::IsFinishing() const {
  const Roster* const roster = PresentRoster();
  return IsElastic() && roster != nullptr && roster->IsFinishing();
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
  absl::Time deadline = lobby_.Deadline();
  if (run_ != nullptr) deadline = std::min(deadline, run_->Deadline());
  if (change_ != nullptr) deadline = std::min(deadline, change_->Deadline());
  if (survivors_ != nullptr) deadline = std::min(deadline, survivors_->Deadline());
  if (shortage_since_ != absl::InfiniteFuture())
    deadline = std::min(deadline, shortage_since_ + absl::Milliseconds(record_.elastic().shortage_limit_ms()));
  return deadline;
}

}  // namespace farandole
