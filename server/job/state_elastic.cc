// The parts of Job::State that only elastic jobs need: who goes on from one epoch to the next, who is to leave, and
// what the launcher reports (which jobs of other kinds may be told as well).
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/job/rules/bounds.h"
#include "server/job/rules/wording.h"
#include "server/job/state.h"

namespace farandole {
namespace {

// A process that was started for a run and joins only when that has finished: an interpreter and a framework take
// seconds to load.
constexpr absl::Duration kLateStart = absl::Seconds(30);
constexpr size_t kMostExitsKept = 65536;
constexpr size_t kMostNamed = 8;

}  // namespace

absl::Status Job::State::CheckNewRun(const v1::JoinRequest& request) const {
  const std::string who = DescribeWorker(request.member());
  const std::string over = absl::StrCat("job ", name_, " is over: ", record_.reason());
  const bool was_in_last_run = !request.predecessor().empty();
  if (record_.state() == v1::JOB_STATE_FAILED && was_in_last_run)
    return absl::AbortedError(absl::StrCat(who, " cannot go on in it: ", over));
  if (record_.state() != v1::JOB_STATE_FINISHED) return absl::OkStatus();
  // The processes that begin a run are numbered below its size.
  const bool is_late = IsElastic() && request.launch_index() >= request.wanted_size() && lobby_.IsEmpty() &&
                       ended_at_ + kLateStart > now_;
  if (was_in_last_run || is_late) return absl::CancelledError(absl::StrCat("there is no place for ", who, ": ", over));
  return absl::OkStatus();
}

absl::Status Job::State::CheckSizes(const v1::JoinRequest& request) const {
  const auto show = [](uint32_t wanted_size, const v1::Elastic& elastic) {
    return absl::StrCat("wanted_size ", wanted_size, ", min_size ", elastic.min_size(), " and max_size ",
                        elastic.max_size());
  };
  const std::string asked = request.has_elastic() ? show(request.wanted_size(), request.elastic())
                                                  : absl::StrCat("wanted_size ", request.wanted_size());
  const std::string present = show(record_.wanted_size(), record_.elastic());
  if (asked == present) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(DescribeWorker(request.member()), " asks for ", asked, ", and job ", name_, " has ", present));
}

std::optional<uint32_t> Job::State::SurvivorRank(const std::string& predecessor) const {
  const Roster* const roster = PresentRoster();
  const auto rank = roster == nullptr || predecessor.empty() ? std::nullopt : roster->RankOf(predecessor);
  if (!rank.has_value()) return std::nullopt;
  const Roster::Seat& seat = roster->seat(*rank);
  if (seat.drained || !seat.lost.empty() || (seat.left && !seat.returns)) return std::nullopt;
  const bool is_gone = survivors_ != nullptr && !survivors_->IsAwaited(*rank) && !survivors_->IsBack(*rank);
  return is_gone ? std::nullopt : rank;
}

absl::Status Job::State::AdmitElastic(const v1::JoinRequest& request, std::optional<uint32_t>* old_rank) {
  const std::string who = DescribeWorker(request.member());
  const std::string& predecessor = request.predecessor();
  if (lobby_.Has(request.member().incarnation())) return absl::OkStatus();
  if (exits_.contains(request.launch_index()))
    return absl::AbortedError(absl::StrCat(who, " may not join: its launcher has said that its process has ended"));
  if (!IsNobodyLeft() || !lobby_.IsEmpty()) {
    if (absl::Status status = CheckSizes(request); !status.ok()) return status;
  }
  const Roster* const roster = PresentRoster();
  if (const std::string* why = drained_.ReasonFor(predecessor); why != nullptr) {
    const auto rank = run_ == nullptr ? std::nullopt : roster->RankOf(predecessor);
    if (rank.has_value()) run_->Return(*rank, Effects());
    return absl::CancelledError(absl::StrCat("there is no place for ", who, " in job ", name_, " any more: ", *why));
  }
  if (IsFinishing()) {
    return absl::CancelledError(absl::StrCat("there is no place for ", who, ": job ", name_,
                                             " is finishing: workers of epoch ", record_.epoch().number(),
                                             " have left it for good"));
  }
  *old_rank = SurvivorRank(predecessor);
  // The process has joined once more before an epoch was formed.
  const Lobby::Worker* earlier = nullptr;
  if (!predecessor.empty() && lobby_.Has(predecessor)) earlier = &lobby_.Get(predecessor);
  if (old_rank->has_value() && earlier == nullptr) earlier = lobby_.FindSurvivor(**old_rank);
  if (earlier != nullptr) {
    *old_rank = earlier->old_rank;
    const std::string replaced = earlier->member.incarnation(), reason = "the same process has joined once more";
    if (earlier->stream != 0) actions_.outputs.push_back(CloseStream{earlier->stream, absl::AbortedError(reason)});
    fence_.Shut(replaced, reason);
    lobby_.Remove(replaced);
    return absl::OkStatus();
  }
  if (old_rank->has_value()) return absl::OkStatus();
  std::string barred = hosts_.Sentence(request.member().hostname(), now_);
  if (barred.empty()) barred = estranged_.Sentence(request.member().host_id(), now_);
  return barred.empty() ? absl::OkStatus() : absl::UnavailableError(absl::StrCat(who, " may not join yet: ", barred));
}

void Job::State::OnSurvivorJoined(uint32_t old_rank) {
  if (run_ != nullptr) return run_->Return(old_rank, Effects());
  const StreamId stream = survivors_->Return(old_rank);
  if (stream != 0) actions_.outputs.push_back(CloseStream{stream, absl::AbortedError("the worker has joined again")});
}

void Job::State::ReceiveSurvivor(uint32_t rank, StreamId stream, const v1::Hello& hello) {
  if (const StreamId old = survivors_->Attach(rank, stream, now_); old != 0) {
    actions_.outputs.push_back(CloseStream{old, absl::AbortedError("replaced by a newer stream of the same worker")});
  }
  v1::CoordinatorMessage message;
  if (hello.epoch() == 0) {
    *message.mutable_epoch_formed() = survivors_->epoch();
    actions_.outputs.push_back(Send{stream, Share(message)});
  }
  // It may have been cut off when the others were told.
  v1::EpochEnded* ended = message.mutable_epoch_ended();
  ended->set_epoch(survivors_->epoch().number());
  ended->set_reason(record_.reason());
  for (uint32_t other = 0; other < survivors_->roster().size(); ++other) {
    if (!survivors_->roster().seat(other).lost.empty()) ended->add_lost_ranks(other);
  }
  actions_.outputs.push_back(Send{stream, Share(std::move(message))});
}

void Job::State::HearSurvivor(uint32_t rank, const v1::WorkerMessage& message) {
  const Roster& roster = survivors_->roster();
  const uint64_t epoch = survivors_->epoch().number();
  survivors_->Hear(rank, now_);
  if (!CheckMessage(message, roster.size()).ok()) return;
  if (message.has_heartbeat() && message.heartbeat().epoch() == epoch) {
    for (const v1::Pulse& pulse : message.heartbeat().pulses()) survivors_->Feel(pulse, now_);
  } else if (message.has_peer_lost() && message.peer_lost().epoch() == epoch) {
    const v1::PeerLost& report = message.peer_lost();
    if (!report.ended_by().empty()) return;
    const std::string claim = survivors_->Accuse(
        report.rank(), absl::StrCat(SeenBy(Plain(report.evidence(), 400), rank), ", and its stream ended"));
    if (!claim.empty()) LoseSurvivor(report.rank(), claim);
  } else if (message.has_departing() && message.departing().epoch() == epoch) {
    Depart(rank, message.departing());
  } else if (message.has_leave() && message.leave().epoch() == epoch) {
    const v1::Leave& leave = message.leave();
    if (!leave.failure().empty()) return LoseSurvivor(rank, absl::StrCat("it failed: ", Plain(leave.failure(), 1024)));
    const StreamId stream = roster.seat(rank).stream;
    survivors_->Leave(rank, leave.returns(), now_);
    actions_.outputs.push_back(CloseStream{stream, absl::OkStatus()});
    if (leave.returns()) return;
    record_changed_ = true;
    Tell(LogLine::Level::kInform, absl::StrCat(roster.Describe(rank), " left for good"));
  }
}

void Job::State::SettleSurvivors() {
  survivors_->SetMissed(!lobby_.IsEmpty(), now_);
  if (std::vector<Roster::Loss> losses = survivors_->FindLosses(now_); !losses.empty())
    LoseSurvivors(std::move(losses));
  const uint64_t epoch = survivors_->epoch().number();
  if (survivors_->IsFinishing()) {
    return EndBetweenEpochs(
        v1::JOB_STATE_FINISHED,
        absl::StrCat("workers of epoch ", epoch, " left for good when it had ended: ", record_.reason()));
  }
  const size_t workers = survivors_->awaited() + lobby_.size();
  if (workers >= MinSize()) {
    shortage_since_ = absl::InfiniteFuture();
    return;
  }
  const absl::Duration limit = absl::Milliseconds(record_.elastic().shortage_limit_ms());
  if (shortage_since_ == absl::InfiniteFuture()) {
    shortage_since_ = now_;
    Tell(LogLine::Level::kWarn, absl::StrCat("the job has ", Count(workers, "worker"), " and needs at least ",
                                             MinSize(), "; it waits for more for ", ShowDuration(limit)));
  }
  if (shortage_since_ + limit > now_) return;
  const std::string who = lobby_.IsEmpty() ? "" : absl::StrCat(": ", lobby_.NameWorkers());
  EndBetweenEpochs(v1::JOB_STATE_FAILED,
                   absl::StrCat("the job needs at least ", Count(MinSize(), "worker"), " and had ", workers, " for ",
                                ShowDuration(limit), who, "; epoch ", epoch, " had ended: ", record_.reason()));
}

void Job::State::LoseSurvivors(std::vector<Roster::Loss> losses) {
  const Roster& roster = survivors_->roster();
  const std::string sentence = roster.DescribeLosses(losses);
  std::vector<uint32_t> ranks;
  for (const Roster::Loss& loss : losses) {
    const StreamId stream = roster.seat(loss.rank).stream;
    if (stream != 0) actions_.outputs.push_back(CloseStream{stream, absl::AbortedError(sentence)});
    fence_.Shut(roster.seat(loss.rank).member.incarnation(), sentence);
    survivors_->Lose(loss.rank, loss.claim);
    if (stream != 0) survivors_->Detach(loss.rank, sentence, now_);
    ranks.push_back(loss.rank);
  }
  record_changed_ = true;
  Tell(LogLine::Level::kWarn, sentence);
  NoteLosses(roster, ranks, sentence, true);
}

void Job::State::EndBetweenEpochs(v1::JobState state, const std::string& reason) {
  const bool finished = state == v1::JOB_STATE_FINISHED;
  v1::CoordinatorMessage message;
  v1::EpochEnded* ended = message.mutable_epoch_ended();
  ended->set_epoch(survivors_->epoch().number());
  ended->set_reason(reason);
  ended->set_job_ended(true);
  ended->set_job_finished(finished);
  const SharedMessage shared = Share(std::move(message));
  const Roster& roster = survivors_->roster();
  for (uint32_t rank = 0; rank < roster.size(); ++rank) {
    const StreamId stream = roster.seat(rank).stream;
    if (stream != 0) actions_.outputs.push_back(Send{stream, shared});
  }
  SaveStands(roster);
  last_workers_ = survivors_->Workers(now_);
  CloseSurvivors(reason);
  record_.clear_epoch_ended();
  DismissLobby(reason, finished);
  Enter(state, reason, finished ? LogLine::Level::kInform : LogLine::Level::kError);
}

void Job::State::NoteLosses(const Roster& roster, const std::vector<uint32_t>& lost, const std::string& sentence,
                            bool blames_hosts) {
  if (!IsElastic()) return;
  for (const uint32_t rank : lost) {
    const v1::Member& member = roster.seat(rank).member;
    const bool is_counted = blames_hosts && !roster.seat(rank).drained;
    if (!exits_.contains(member.launch_index())) lost_.Add(member, sentence, is_counted, now_);
    if (is_counted) CountFailure(member.hostname());
  }
}

void Job::State::CountFailure(const std::string& hostname) {
  if (const std::string sentence = hosts_.Fail(hostname, now_); !sentence.empty()) {
    record_changed_ = true;
    Tell(LogLine::Level::kWarn, sentence);
  }
}

void Job::State::On(const ExitReported& event) {
  const v1::ReportExitRequest& report = event.request;
  if (absl::Status status = CheckReportExit(report); !status.ok())
    return Answer<v1::ReportExitResponse>(event.call, status);
  if (IsOngoing() && exits_.insert(report.launch_index()).second) TakeExit(report);
  if (exits_.size() > kMostExitsKept) exits_.erase(exits_.begin());
  lost_.Remove(report.launch_index());
  Settle();
  v1::ReportExitResponse response;
  response.set_job_over(!IsOngoing() || IsFinishing());
  const auto& members = record_.epoch().members();
  response.set_outlived(response.job_over() && std::none_of(members.begin(), members.end(), [&](const auto& member) {
                          return member.launch_index() == report.launch_index();
                        }));
  response.set_barred_ms(absl::ToInt64Milliseconds(hosts_.BarredFor(report.host(), now_)));
  response.set_sentence(hosts_.Sentence(report.host(), now_));
  Answer<v1::ReportExitResponse>(event.call, std::move(response));
}

void Job::State::TakeExit(const v1::ReportExitRequest& report) {
  const std::string end = report.end().empty() ? "how is not known" : Plain(report.end(), 256);
  const std::string failed_host = FailedHost(report);
  // Here or below, where it is lost by this.
  bool is_counted = lost_.Find(report.launch_index()) != nullptr;
  const std::string claim = absl::StrCat("its process ended (", end, ", says its launcher)");
  if (const Lobby::Worker* waiting = lobby_.FindLaunched(report.launch_index()); waiting != nullptr) {
    const Lobby::Worker worker = *waiting;
    const std::string sentence = absl::StrCat(DescribeWorker(worker.member), ", which waited, was lost: ", claim);
    Tell(LogLine::Level::kInform, sentence);
    fence_.Shut(worker.member.incarnation(), sentence);
    lobby_.Remove(worker.member.incarnation());
    if (worker.stream != 0) actions_.outputs.push_back(CloseStream{worker.stream, absl::AbortedError(sentence)});
  }
  const Roster* const roster = PresentRoster();
  const auto rank = roster == nullptr ? std::nullopt : roster->RankLaunched(report.launch_index());
  if (rank.has_value() && run_ != nullptr) {
    const Roster::Seat& seat = roster->seat(*rank);
    is_counted |= !seat.left;
    if (!seat.left) run_->Lose(*rank, claim);
    if (seat.returns) Forsake(*rank, claim);
  } else if (rank.has_value() && (survivors_->IsAwaited(*rank) || survivors_->IsBack(*rank))) {
    is_counted = true;
    LoseSurvivor(*rank, claim);
  }
  if (!failed_host.empty() && !is_counted) CountFailure(failed_host);
  if (!failed_host.empty()) hosts_.Name(failed_host, report.host());
}

std::string Job::State::FailedHost(const v1::ReportExitRequest& report) {
  if (!report.failed() || !IsElastic() || IsFinishing()) return "";
  if (const LostWorkers::Loss* loss = lost_.Find(report.launch_index()); loss != nullptr)
    return loss->is_counted ? loss->hostname : "";
  if (const Lobby::Worker* worker = lobby_.FindLaunched(report.launch_index()); worker != nullptr)
    return worker->member.hostname();
  const Roster* const roster = PresentRoster();
  const auto rank = roster == nullptr ? std::nullopt : roster->RankLaunched(report.launch_index());
  if (!rank.has_value()) return report.host();
  return roster->seat(*rank).drained ? "" : roster->seat(*rank).member.hostname();
}

void Job::State::On(const LostListed& event) { Answer<v1::ListLostResponse>(event.call, lost_.List(now_)); }

void Job::State::On(const DrainRequested& event) {
  absl::StatusOr<std::vector<uint32_t>> ranks = RanksToDrain(event);
  if (!ranks.ok()) return Answer<v1::DrainWorkersResponse>(event.call, ranks.status());
  const std::string reason = event.reason.empty() ? "" : absl::StrCat(": ", Plain(event.reason, 1024));
  std::string why = absl::StrCat("an operator drains it", reason);
  if (!event.hostname.empty()) why = absl::StrCat("an operator drains host ", Plain(event.hostname, 64), reason);
  if (!event.launched.empty()) why = absl::StrCat("its launcher drains it", reason);
  Drain(*ranks, why);
  std::vector<Lobby::Worker> waiting;
  for (const std::string& incarnation : WaitingToDrain(event)) {
    waiting.push_back(lobby_.Get(incarnation));
    lobby_.Remove(incarnation);
  }
  Dismiss(waiting, why, true);
  v1::DrainWorkersResponse response;
  response.mutable_ranks()->Assign(ranks->begin(), ranks->end());
  Answer<v1::DrainWorkersResponse>(event.call, std::move(response));
}

absl::StatusOr<std::vector<uint32_t>> Job::State::RanksToDrain(const DrainRequested& event) const {
  if (!IsElastic())
    return absl::FailedPreconditionError(absl::StrCat("job ", name_, " is not elastic: its workers leave it together"));
  if (run_ == nullptr)
    return absl::FailedPreconditionError(absl::StrCat("job ", name_, " has no epoch that runs: ", record_.reason()));
  const Roster& roster = run_->roster();
  const std::string epoch = absl::StrCat("epoch ", run_->epoch().number(), " of job ", name_);
  std::vector<uint32_t> ranks;
  absl::btree_set<std::string> hosts;
  for (const uint32_t rank : roster.Staying()) {
    const std::string& host = roster.seat(rank).member.hostname();
    hosts.insert(host);
    if (!event.launched.empty()) {
      if (event.launched.contains(roster.seat(rank).member.launch_index())) ranks.push_back(rank);
    } else if (event.rank.has_value() ? *event.rank == rank : host == event.hostname) {
      ranks.push_back(rank);
    }
  }
  const std::vector<std::string> waiting = WaitingToDrain(event);
  if (ranks.empty() && !event.launched.empty()) {
    if (!waiting.empty()) return ranks;
    return absl::NotFoundError(absl::StrCat(epoch, " has none of the workers that are to leave"));
  }
  if (ranks.empty() && event.rank.has_value()) {
    return absl::NotFoundError(
        absl::StrCat(epoch, " has no rank ", *event.rank, "; it has ", ShowRanks(roster.Staying())));
  }
  if (ranks.empty()) {
    const std::vector<std::string> named(hosts.begin(), std::next(hosts.begin(), std::min(hosts.size(), kMostNamed)));
    return absl::NotFoundError(absl::StrCat(epoch, " has no worker on host ", Plain(event.hostname, 64), "; it has on ",
                                            absl::StrJoin(named, ", "), named.size() < hosts.size() ? ", ..." : ""));
  }
  const size_t more = absl::c_count_if(ranks, [&roster](uint32_t rank) { return !roster.seat(rank).drained; });
  const size_t remaining =
      roster.remaining() - more + lobby_.newcomers() - std::min(waiting.size(), lobby_.newcomers());
  if (more == 0 || remaining >= MinSize()) return ranks;
  return absl::FailedPreconditionError(absl::StrCat("without ", ShowRanks(ranks), " job ", name_, " would have ",
                                                    Count(remaining, "worker"), ", and its min_size is ", MinSize()));
}

std::vector<std::string> Job::State::WaitingToDrain(const DrainRequested& event) const {
  if (!event.hostname.empty()) return lobby_.IncarnationsOn(event.hostname);
  std::vector<std::string> waiting;
  for (const auto& [order, worker] : lobby_.workers()) {
    if (event.launched.contains(worker.launch_index)) waiting.push_back(worker.member.incarnation());
  }
  return waiting;
}

void Job::State::Depart(uint32_t rank, const v1::Departing& departing) {
  const std::string grace = ShowDuration(absl::Milliseconds(std::min<uint64_t>(departing.grace_ms(), 86'400'000)));
  const std::string reason = departing.reason().empty() ? "" : absl::StrCat(": ", Plain(departing.reason(), 1024));
  Drain({rank}, absl::StrCat("its process will be ended in ", grace, reason));
}

void Job::State::Drain(const std::vector<uint32_t>& ranks, const std::string& why) {
  const Roster& roster = *PresentRoster();
  std::vector<uint32_t> drained;
  for (const uint32_t rank : ranks) {
    if (roster.seat(rank).drained) continue;
    drained.push_back(rank);
    drained_.Shut(roster.seat(rank).member.incarnation(), absl::StrCat(roster.Describe(rank), " is to leave: ", why));
    if (run_ != nullptr) run_->Drain(rank);
    if (survivors_ != nullptr) survivors_->Drain(rank);
  }
  if (drained.empty()) return;
  record_changed_ = true;
  const char* const verb = drained.size() == 1 ? " is" : " are";
  Tell(LogLine::Level::kInform, absl::StrCat(roster.DescribeAll(drained, drained.size()), verb, " to leave: ", why));
}

size_t Job::State::Joining() const {
  const size_t remaining = run_->roster().remaining();
  return remaining >= MaxSize() ? 0 : std::min<size_t>(lobby_.newcomers(), MaxSize() - remaining);
}

void Job::State::TellWantedChange() {
  const Roster& roster = run_->roster();
  // Workers that wait when the program is over wait for its end.
  if (roster.IsFinishing()) change_.reset();
  if (change_ == nullptr || !change_->IsDue(Joining(), roster.drained(), now_)) return;
  std::vector<uint32_t> leaving;
  for (uint32_t rank = 0; rank < roster.size(); ++rank) {
    if (roster.seat(rank).drained) leaving.push_back(rank);
  }
  std::vector<std::string> claims;
  if (Joining() > 0) {
    claims.push_back(absl::StrCat(Count(Joining(), "worker"), Joining() == 1 ? " waits" : " wait",
                                  " to join: ", lobby_.NameWorkers()));
  }
  if (leaving.size() == 1) {
    claims.push_back(*drained_.ReasonFor(roster.seat(leaving[0]).member.incarnation()));
  } else if (!leaving.empty()) {
    claims.push_back(absl::StrCat(roster.DescribeAll(leaving, leaving.size()), " are to leave"));
  }
  const std::string sentence = absl::StrJoin(claims, "; ");
  run_->SendToAll(Share(change_->Tell(Joining(), leaving, sentence)), Effects());
  record_.set_change_serial(change_->serial());
  record_changed_ = true;
  Tell(LogLine::Level::kInform, absl::StrCat("members are told: ", sentence));
}

std::string Job::State::WaitingSentence() const {
  if (!IsElastic() && run_ == nullptr) return lobby_.WaitingSentence();
  if (!IsElastic()) {
    return absl::StrCat(lobby_.WaitingSentence(), "; epoch ", run_->epoch().number(), " still runs on ",
                        ShowRanks(run_->roster().Staying()));
  }
  const std::string waiting =
      absl::StrCat(Count(lobby_.size(), "worker"), lobby_.size() == 1 ? " waits: " : " wait: ", lobby_.NameWorkers());
  if (run_ != nullptr) {
    const std::string size = Count(run_->roster().remaining(), "worker");
    const std::string epoch = absl::StrCat("epoch ", run_->epoch().number());
    if (Joining() == 0 && lobby_.newcomers() > 0)
      return absl::StrCat(epoch, " has ", size, ", and ", MaxSize(), " is the most; as spares ", waiting);
    return absl::StrCat(epoch, " runs with ", size, " until its program lets others join; ", waiting);
  }
  if (survivors_ == nullptr) return lobby_.WaitingSentence();
  const std::string others = lobby_.IsEmpty() ? "" : absl::StrCat("; ", waiting);
  if (survivors_->awaited() > 0) {
    return absl::StrCat("waits for ", survivors_->NameAwaited(), " of epoch ", survivors_->epoch().number(),
                        " to join again", others);
  }
  if (lobby_.size() < MinSize()) {
    return absl::StrCat("waits for ", MinSize() - lobby_.size(), " more of at least ", Count(MinSize(), "worker"),
                        others);
  }
  return IsNobodyLeft() ? lobby_.WaitingSentence() : absl::StrCat("waits for streams to open", others);
}

}  // namespace farandole
