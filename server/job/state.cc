#include "server/job/state.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "farandole/v1/admin.pb.h"
#include "server/job/rules/bounds.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// Jobs that share a directory do not draw the same by chance.
constexpr size_t kCatalogueIdBytes = 8;
// How late a tick comes at most while the coordinator runs.
constexpr absl::Duration kPunctual = absl::Milliseconds(10);
// Of an incarnation that may not come back.
constexpr size_t kFencedBytes = 256;
// Messages that arrived while it did not run are read within this time, however short its absence was.
constexpr absl::Duration kLeastPatience = absl::Milliseconds(100);

}  // namespace

Job::State::State(std::string tenant, std::string name, const JobOptions& options,
                  std::function<std::string(size_t)> random_bytes)
    : job_(std::move(tenant), std::move(name), options, std::move(random_bytes)),
      ledger_(job_.ledger),
      storage_(&job_),
      report_(&job_),
      admission_(&job_),
      dismissal_(&job_),
      losses_(&job_),
      departures_(&job_),
      cycle_(&job_),
      evidence_(&job_),
      logged_(&job_),
      timeline_(&job_) {}

Actions Job::State::Step(const Event& event, absl::Time now, absl::Duration wall_ahead) {
  ledger_.BeginStep(now, wall_ahead);
  ExcuseLateness();
  std::visit([this](const auto& e) { On(e); }, event);
  cycle_.Settle();
  SettleWanted();
  evidence_.Settle();
  if (!is_deleted_) logged_.Settle();
  timeline_.Settle();
  if (ledger_.IsChanged() && !is_deleted_) storage_.Save();
  if (!is_deleted_) logged_.Save();
  ForgetClosedStreams();
  promised_tick_ = ledger_.actions().next_tick =
      std::min({cycle_.Deadline(), admission_.ClaimEnd(), evidence_.Deadline(), logged_.Deadline(),
                timeline_.Deadline(), WatchTick()});
  return ledger_.TakeActions();
}

// While workers are watched, a tick comes as often as their heartbeats. Only by a tick that is late does a pause of
// this process show, and the workers, which may have paused with it, are given as much time as the pause has taken, but
// for an interval.
absl::Time Job::State::WatchTick() const {
  if (job_.run == nullptr && job_.survivors == nullptr) return absl::InfiniteFuture();
  return ledger_.now() + job_.options.heartbeat_interval;
}

void Job::State::ExcuseLateness() {
  const absl::Duration late = ledger_.now() - promised_tick_;
  if (late <= kPunctual) return;
  const absl::Time judged_from = ledger_.now() + std::clamp(late, kLeastPatience, job_.options.silence_limit);
  if (job_.run != nullptr) job_.run->Excuse(judged_from);
  if (job_.survivors != nullptr) job_.survivors->Excuse(judged_from);
}

void Job::State::On(const JoinRequested& event) {
  const bool is_first = job_.lobby.IsEmpty();
  // A dismissed worker reads on its stream that the job has finished.
  const std::string& incarnation = event.request.member().incarnation();
  const bool is_dismissed = job_.fence.IsDismissed(incarnation);
  const bool was_there = job_.lobby.Has(incarnation);
  const absl::Status status = is_dismissed ? absl::OkStatus() : admission_.Admit(event);
  if (!status.ok()) return ledger_.Answer<v1::JoinResponse>(event.call, status);
  if (is_first && !is_dismissed) cycle_.OnFirstInLobby();
  if (!was_there && job_.lobby.Has(incarnation))
    ledger_.Trace([&](RunTrace& trace, absl::Time at) { trace.NoteJoin(job_.lobby.Get(incarnation).member, at); });
  v1::JoinResponse response;
  response.set_heartbeat_interval_ms(absl::ToInt64Milliseconds(job_.options.heartbeat_interval));
  response.set_silence_limit_ms(absl::ToInt64Milliseconds(job_.options.silence_limit));
  response.set_version(kVersion);
  ledger_.Answer<v1::JoinResponse>(event.call, std::move(response));
}

void Job::State::On(const JobClaimed& event) {
  const absl::StatusOr<v1::Launch> launch = admission_.Claim(event.request);
  if (!launch.ok()) return ledger_.Answer<v1::CreateJobResponse>(event.call, launch.status());
  v1::CreateJobResponse response;
  *response.mutable_launch() = *launch;
  ledger_.Answer<v1::CreateJobResponse>(event.call, std::move(response));
}

void Job::State::On(const StreamOpened& event) {
  const absl::Status status = Receive(event.stream, event.hello);
  if (!status.ok()) return ledger_.Close(event.stream, status);
  admission_.NoteStarter(event.hello.incarnation(), event.token_id);
}

void Job::State::On(const MessageReceived& event) {
  const auto it = streams_.find(event.stream);
  if (it == streams_.end()) return;
  if (job_.lobby.Has(it->second)) {
    if (event.message.has_process_ended()) {
      if (CheckMessage(event.message, 0).ok()) cycle_.TakeEnd(event.message.process_ended());
      return;
    }
    if (!event.message.has_leave()) return;
    const Lobby::Worker worker = job_.lobby.Get(it->second);
    ledger_.Tell(LogLine::Level::kInform,
                 absl::StrCat(DescribeWorker(worker.member), " left before the epoch was formed"));
    cycle_.LeaveLobby(worker, event.message.leave().returns());
    ledger_.Close(event.stream, absl::OkStatus());
    return;
  }
  const Roster* const roster = job_.PresentRoster();
  const auto rank = roster == nullptr ? std::nullopt : roster->RankOf(it->second);
  if (!rank.has_value() || roster->seat(*rank).stream != event.stream) return;
  const bool has_logged = event.message.heartbeat().logged_size() > 0;
  if (has_logged && CheckMessage(event.message, roster->size()).ok()) logged_.Take(*rank, event.message.heartbeat());
  if (event.message.has_timeline_chunk() && CheckMessage(event.message, roster->size()).ok())
    timeline_.Take(*rank, event.stream, event.message.timeline_chunk());
  if (job_.run == nullptr) return HearSurvivor(*rank, event.message);
  job_.run->Receive(*rank, event.message, ledger_.effects());
  const bool has_evidence = event.message.has_evidence() && CheckMessage(event.message, roster->size()).ok();
  if (has_evidence) return evidence_.Take(*rank, event.message.evidence());
  const v1::CheckpointTold& told = event.message.checkpoint_told();
  const bool is_of_epoch = *rank == 0 && told.epoch() == job_.run->epoch().number();
  if (event.message.has_checkpoint_told() && is_of_epoch && CheckMessage(event.message, roster->size()).ok())
    return HearTold(told);
  const v1::Departing& departing = event.message.departing();
  if (!event.message.has_departing() || !job_.IsElastic() || departing.epoch() != job_.run->epoch().number()) return;
  if (CheckMessage(event.message, roster->size()).ok()) departures_.Depart(*rank, departing);
}

void Job::State::On(const StreamClosed& event) {
  const auto it = streams_.find(event.stream);
  if (it == streams_.end()) return;
  const std::string incarnation = std::move(it->second);
  streams_.erase(it);
  if (job_.lobby.Has(incarnation)) {
    if (job_.lobby.Get(incarnation).stream != event.stream) return;
    const Lobby::Worker worker = job_.lobby.Get(incarnation);
    ledger_.Tell(LogLine::Level::kInform, absl::StrCat(DescribeWorker(worker.member),
                                                       " went away before the epoch was formed: its stream ended (",
                                                       Plain(event.evidence), ")"));
    return cycle_.LeaveLobby(worker, true);
  }
  const Roster* const roster = job_.PresentRoster();
  const auto rank = roster == nullptr ? std::nullopt : roster->RankOf(incarnation);
  if (!rank.has_value() || roster->seat(*rank).stream != event.stream) return;
  if (job_.run != nullptr) return job_.run->Detach(*rank, event.evidence, ledger_.effects());
  const std::string claim = job_.survivors->Detach(*rank, event.evidence, ledger_.now());
  if (!claim.empty()) losses_.LoseSurvivor(*rank, claim);
}

void Job::State::On(const BeginCheckpointRequested& event) {
  if (absl::Status room = storage_.AdmitCheckpoint(event.request); !room.ok())
    return ledger_.Answer<v1::BeginCheckpointResponse>(event.call, room);
  CheckpointGate::Writes writes;
  absl::StatusOr<v1::BeginCheckpointResponse> response = job_.gate.Begin(event.request, Present(), &writes);
  if (response.ok()) response->set_catalogue(CatalogueName());
  ledger_.Trace([&](RunTrace& trace, absl::Time at) {
    if (!response.ok() || writes.puts.empty()) return;
    trace.BeginCheckpoint(CheckpointGate::NameOrDefault(event.request.name()), event.request.step(), response->token(),
                          at);
  });
  storage_.SaveCheckpoints(std::move(writes));
  ledger_.Answer(event.call, std::move(response));
}

void Job::State::On(const CommitCheckpointRequested& event) {
  CheckpointGate::Writes writes;
  absl::StatusOr<v1::CommitCheckpointResponse> response =
      job_.gate.Commit(event.request, Present(), ledger_.now() + ledger_.wall_ahead(), &writes);
  if (response.ok() && !writes.puts.empty()) {
    const v1::Checkpoint& checkpoint = response->checkpoint();
    const bool was_wanted = job_.wanted.Fulfil(checkpoint, ledger_.wall_ms());
    ledger_.Tell(LogLine::Level::kInform, absl::StrCat("checkpoint written", was_wanted ? ", as was asked for" : "",
                                                       ": ", Plain(checkpoint.name()), " at step ", checkpoint.step(),
                                                       ", ", Plain(checkpoint.path(), 400)));
  }
  ledger_.Trace([&](RunTrace& trace, absl::Time at) {
    if (!response.ok() || (writes.puts.empty() && writes.deletes.empty())) return;
    if (writes.puts.empty()) return trace.GiveUpCheckpoint(event.request.checkpoint().token(), at);
    trace.CommitCheckpoint(response->checkpoint(), at);
  });
  storage_.SaveCheckpoints(std::move(writes));
  ledger_.Answer(event.call, std::move(response));
}

void Job::State::On(const FindCheckpointRequested& event) { ledger_.Answer(event.call, job_.gate.Find(event.request)); }

void Job::State::On(const ExitReported& event) {
  const v1::ReportExitRequest& report = event.request;
  if (absl::Status status = CheckReportExit(report); !status.ok())
    return ledger_.Answer<v1::ReportExitResponse>(event.call, status);
  if (!job_.IsOngoing() && admission_.AwaitsFirstWorker()) {
    return ledger_.Answer<v1::ReportExitResponse>(
        event.call,
        absl::NotFoundError(absl::StrCat("no worker of this launch of job ", ledger_.name(), " has joined yet")));
  }
  const absl::StatusOr<bool> counts = losses_.Believe(report, event.only_of_token);
  if (!counts.ok()) return ledger_.Answer<v1::ReportExitResponse>(event.call, counts.status());
  if (*counts && job_.IsOngoing() && job_.failures.NoteExit(report.launch_index())) losses_.TakeExit(report);
  if (*counts) job_.failures.ForgetLoss(report.launch_index());
  cycle_.Settle();
  v1::ReportExitResponse response;
  response.set_job_over(!job_.IsOngoing() || job_.IsFinishing());
  const auto& members = ledger_.record().epoch().members();
  response.set_outlived(response.job_over() && std::none_of(members.begin(), members.end(), [&](const auto& member) {
                          return member.launch_index() == report.launch_index();
                        }));
  response.set_barred_ms(absl::ToInt64Milliseconds(job_.failures.hosts().BarredFor(report.host(), ledger_.now())));
  response.set_sentence(job_.failures.hosts().Sentence(report.host(), ledger_.now()));
  ledger_.Answer<v1::ReportExitResponse>(event.call, std::move(response));
}

void Job::State::On(const LostListed& event) {
  ledger_.Answer<v1::ListLostResponse>(event.call, job_.failures.ListLost(ledger_.now()));
}

void Job::State::On(const JobInspected& event) {
  if (ledger_.record().created_unix_ms() == 0) {
    return ledger_.Answer<v1::GetJobResponse>(
        event.call, absl::NotFoundError(absl::StrCat("no worker of job ", ledger_.name(), " has joined yet")));
  }
  ledger_.Answer<v1::GetJobResponse>(event.call, report_.Inspect(event.history));
}

void Job::State::On(const CheckpointsListed& event) {
  ledger_.Answer<v1::ListCheckpointsResponse>(
      event.call, event.newest_first ? job_.gate.ListNewest(event.skipped, event.most)
                                     : job_.gate.List({event.after_unix_ms, event.after_token}, event.most));
}

void Job::State::On(const DeleteCheckpointRequested& event) {
  CheckpointGate::Writes writes;
  absl::StatusOr<v1::DeleteCheckpointResponse> response = job_.gate.Delete(event.name, event.step, &writes);
  if (response.ok()) {
    const v1::Checkpoint& checkpoint = response->checkpoint();
    ledger_.Tell(LogLine::Level::kInform,
                 absl::StrCat("checkpoint deleted from the catalogue: ", Plain(checkpoint.name()), " at step ",
                              checkpoint.step(), "; its file stays, ", Plain(checkpoint.path(), 400)));
  }
  storage_.SaveCheckpoints(std::move(writes));
  ledger_.Answer(event.call, std::move(response));
}

void Job::State::On(const CheckpointAsked& event) {
  absl::Status admitted = admission_.CheckLaunchedWith(event.only_of_token);
  if (admitted.ok() && ledger_.record().created_unix_ms() == 0) {
    admitted = absl::NotFoundError(absl::StrCat("no worker of job ", ledger_.name(), " has joined yet"));
  } else if (admitted.ok() && !job_.IsOngoing()) {
    admitted = absl::FailedPreconditionError(
        absl::StrCat("job ", ledger_.name(), " has ended, and writes no checkpoint: ", ledger_.record().reason()));
  }
  if (!admitted.ok()) return ledger_.Answer<v1::RequestCheckpointResponse>(event.call, admitted);
  const uint64_t after = job_.wanted.state().after_token();
  const bool is_writing = job_.gate.IsWriting(after, ledger_.record().epoch().number());
  const std::string asker = Plain(event.asker);
  if (job_.wanted.Ask(asker, job_.gate.last_token(), is_writing, ledger_.wall_ms()))
    ledger_.Tell(LogLine::Level::kInform, absl::StrCat(asker, " asks the program for a checkpoint"));
  ledger_.MarkChanged();
  v1::RequestCheckpointResponse response;
  *response.mutable_wanted() = job_.wanted.state();
  ledger_.Answer<v1::RequestCheckpointResponse>(event.call, std::move(response));
}

void Job::State::HearTold(const v1::CheckpointTold& told) {
  if (job_.wanted.Tell(told.serial(), told.epoch(), ledger_.wall_ms())) {
    ledger_.Tell(LogLine::Level::kInform, "the program is told that a checkpoint is wanted");
    ledger_.MarkChanged();
  }
  if (told.failure().empty() || !job_.wanted.IsPending() || told.serial() != job_.wanted.state().serial()) return;
  const std::string why = absl::StrCat("the program could not write it: ", Plain(told.failure(), 1024));
  job_.wanted.Fail(why, ledger_.wall_ms());
  ledger_.Tell(LogLine::Level::kWarn, absl::StrCat("the checkpoint that was asked for is not there: ", why));
  ledger_.MarkChanged();
}

void Job::State::SettleWanted() {
  if (job_.wanted.IsPending() && !job_.IsOngoing()) {
    job_.wanted.Fail(absl::StrCat("the job ended before: ", ledger_.record().reason()), ledger_.wall_ms());
    ledger_.MarkChanged();
  }
  if (job_.run == nullptr || job_.run->roster().seat(0).stream == 0) return;
  const uint64_t epoch = job_.run->epoch().number();
  const std::optional<uint64_t> news = job_.wanted.TakeNews(epoch);
  if (!news.has_value()) return;
  v1::CoordinatorMessage message;
  message.mutable_checkpoint_wanted()->set_epoch(epoch);
  message.mutable_checkpoint_wanted()->set_serial(*news);
  job_.run->SendTo(0, Share(std::move(message)), ledger_.effects());
}

void Job::State::On(const AbortRequested& event) {
  if (absl::Status status = admission_.CheckLaunchedWith(event.only_of_token); !status.ok())
    return ledger_.Answer<v1::AbortJobResponse>(event.call, status);
  if (job_.IsOngoing()) {
    const std::string said = event.reason.empty() ? "no reason given" : Plain(event.reason, 1024);
    // A launcher says it itself.
    event.by_launcher ? cycle_.Abort(said, LogLine::Level::kInform)
                      : cycle_.Abort(absl::StrCat("an operator ended the job: ", said), LogLine::Level::kError);
  }
  ledger_.Answer<v1::AbortJobResponse>(event.call, v1::AbortJobResponse());
}

void Job::State::On(const DeleteRequested& event) {
  if (absl::Status status = CheckDeletable(event); !status.ok())
    return ledger_.Answer<v1::DeleteJobResponse>(event.call, status);
  if (event.only_measured) {
    job_.measured.Clear();
    job_.last.diagnosis.Clear();
    job_.last.hosts.clear();
    return ledger_.Answer<v1::DeleteJobResponse>(event.call, v1::DeleteJobResponse());
  }
  // Streams of workers whose run is over, which they have not noticed yet.
  for (const auto& [stream, incarnation] : streams_)
    ledger_.Close(stream, absl::NotFoundError(absl::StrCat("job ", ledger_.name(), " was deleted")));
  storage_.Delete();
  is_deleted_ = true;
  ledger_.actions().outputs.push_back(LogLine{LogLine::Level::kInform, "deleted"});
  ledger_.Answer<v1::DeleteJobResponse>(event.call, v1::DeleteJobResponse());
}

absl::Status Job::State::CheckDeletable(const DeleteRequested& event) const {
  const v1::JobRecord& record = ledger_.record();
  if (record.created_unix_ms() == 0)
    return absl::NotFoundError(absl::StrCat("no worker of job ", ledger_.name(), " has joined yet"));
  if (job_.IsOngoing()) {
    return absl::FailedPreconditionError(absl::StrCat("job ", ledger_.name(),
                                                      record.state() == v1::JOB_STATE_FORMING ? " forms" : " runs",
                                                      "; end it (farandole job abort) before it is deleted"));
  }
  if (IsClaimed()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", ledger_.name(), " is being started anew: its launch has the name"));
  }
  if (event.ended_unix_ms == 0 || event.ended_unix_ms == record.ended_unix_ms()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("job ", ledger_.name(), " ended at ", record.ended_unix_ms(),
                                                    ", and is to be deleted only if it ended at ",
                                                    event.ended_unix_ms));
}

void Job::State::On(const DrainRequested& event) {
  if (absl::Status status = admission_.CheckLaunchedWith(event.only_of_token); !status.ok())
    return ledger_.Answer<v1::DrainWorkersResponse>(event.call, status);
  ledger_.Answer(event.call, departures_.Drain(event));
}

absl::Status Job::State::Receive(StreamId stream, const v1::Hello& hello) {
  if (absl::Status status = CheckHello(hello); !status.ok()) return status;
  const std::string& incarnation = hello.incarnation();
  if (const std::string* reason = job_.fence.ReasonFor(incarnation); reason != nullptr) {
    if (!job_.fence.IsDismissed(incarnation)) return absl::AbortedError(*reason);
    return dismissal_.TellDismissal(stream, *reason, true), absl::OkStatus();
  }
  if (job_.lobby.Has(incarnation)) return ReceiveWaiting(stream, hello);
  const Roster* const roster = job_.PresentRoster();
  const auto rank = roster == nullptr ? std::nullopt : roster->RankOf(incarnation);
  if (rank.has_value()) return ReceiveMember(*rank, stream, hello);
  if (hello.epoch() == 0)
    return absl::NotFoundError(absl::StrCat("no Join of worker ", incarnation, " is known in job ", ledger_.name()));
  return absl::AbortedError(absl::StrCat("worker ", incarnation, " names epoch ", hello.epoch(), " of job ",
                                         ledger_.name(), ", in which it does not run; the last epoch is ",
                                         ledger_.record().epoch().number()));
}

absl::Status Job::State::ReceiveWaiting(StreamId stream, const v1::Hello& hello) {
  if (hello.epoch() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("hello names epoch ", hello.epoch(), ", and the worker waits for its first one"));
  }
  streams_[stream] = hello.incarnation();
  if (const StreamId old = job_.lobby.Open(hello.incarnation(), stream); old != 0) {
    ledger_.Close(old, absl::AbortedError("replaced by a newer stream of the same worker"));
  }
  cycle_.Greet(job_.lobby.Get(hello.incarnation()));
  return absl::OkStatus();
}

absl::Status Job::State::ReceiveMember(uint32_t rank, StreamId stream, const v1::Hello& hello) {
  const uint64_t last_epoch = ledger_.record().epoch().number();
  const Roster& roster = *job_.PresentRoster();
  if (roster.seat(rank).left)
    return absl::AbortedError(absl::StrCat(roster.Describe(rank), " has left epoch ", last_epoch));
  if (hello.epoch() != 0 && hello.epoch() != last_epoch) {
    return absl::AbortedError(
        absl::StrCat(roster.Describe(rank), " names epoch ", hello.epoch(), ", and is in epoch ", last_epoch));
  }
  streams_[stream] = hello.incarnation();
  if (job_.run == nullptr) return ReceiveSurvivor(rank, stream, hello), absl::OkStatus();
  if (!job_.IsElastic() && !job_.lobby.IsEmpty() && job_.run->IsForsaken())
    dismissal_.DismissLobby(
        absl::StrCat("job ", ledger_.name(), " runs already: ", roster.Describe(rank), " has come back"));
  job_.run->Attach(rank, stream, hello, ledger_.effects());
  const bool is_told = job_.change != nullptr && job_.change->told().has_value();
  // It may have been cut off when the others were told.
  if (is_told && roster.seat(rank).stream == stream)
    job_.run->SendTo(rank, Share(*job_.change->told()), ledger_.effects());
  if (rank == 0) job_.wanted.TellAgain();
  return absl::OkStatus();
}

void Job::State::ReceiveSurvivor(uint32_t rank, StreamId stream, const v1::Hello& hello) {
  if (const StreamId old = job_.survivors->Attach(rank, stream, ledger_.now()); old != 0) {
    ledger_.Close(old, absl::AbortedError("replaced by a newer stream of the same worker"));
  }
  v1::CoordinatorMessage message;
  if (hello.epoch() == 0) {
    *message.mutable_epoch_formed() = job_.survivors->epoch();
    ledger_.Send(stream, Share(message));
  }
  // It may have been cut off when the others were told.
  v1::EpochEnded* ended = message.mutable_epoch_ended();
  ended->set_epoch(job_.survivors->epoch().number());
  ended->set_reason(ledger_.record().reason());
  for (uint32_t other = 0; other < job_.survivors->roster().size(); ++other) {
    if (!job_.survivors->roster().seat(other).lost.empty()) ended->add_lost_ranks(other);
  }
  ledger_.Send(stream, Share(std::move(message)));
}

void Job::State::HearSurvivor(uint32_t rank, const v1::WorkerMessage& message) {
  const Roster& roster = job_.survivors->roster();
  const uint64_t epoch = job_.survivors->epoch().number();
  job_.survivors->Hear(rank, ledger_.now());
  if (IsSignOfLife(message)) job_.survivors->HearHost(rank, ledger_.now());
  if (!CheckMessage(message, roster.size()).ok()) return;
  if (message.has_heartbeat() && message.heartbeat().epoch() == epoch) {
    for (const v1::Pulse& pulse : message.heartbeat().pulses()) job_.survivors->Feel(pulse, ledger_.now());
  } else if (message.has_peer_lost() && message.peer_lost().epoch() == epoch) {
    const v1::PeerLost& report = message.peer_lost();
    if (!report.ended_by().empty()) return;
    const std::string claim = job_.survivors->Accuse(
        report.rank(), absl::StrCat(SeenBy(Plain(report.evidence(), 400), rank), ", and its stream ended"));
    if (!claim.empty()) losses_.LoseSurvivor(report.rank(), claim);
  } else if (message.has_departing() && message.departing().epoch() == epoch) {
    departures_.Depart(rank, message.departing());
  } else if (message.has_leave() && message.leave().epoch() == epoch) {
    const v1::Leave& leave = message.leave();
    if (!leave.failure().empty())
      return losses_.LoseSurvivor(rank, absl::StrCat("it failed: ", Plain(leave.failure(), 1024)));
    const StreamId stream = roster.seat(rank).stream;
    job_.survivors->Leave(rank, leave.returns(), ledger_.now());
    ledger_.Close(stream, absl::OkStatus());
    if (leave.returns()) return;
    ledger_.MarkChanged();
    ledger_.Tell(LogLine::Level::kInform, absl::StrCat(roster.Describe(rank), " left for good"));
  }
}

CheckpointGate::Present Job::State::Present() const {
  CheckpointGate::Present present;
  present.epoch = ledger_.record().epoch().number();
  present.is_running = job_.run != nullptr && !job_.run->roster().seat(0).left;
  if (ledger_.record().epoch().members_size() > 0) present.writer = ledger_.record().epoch().members(0).incarnation();
  return present;
}

std::string Job::State::CatalogueName() {
  if (ledger_.record().catalogue_id().empty()) {
    ledger_.Change()->set_catalogue_id(job_.random_bytes(kCatalogueIdBytes));
    ledger_.MarkChanged();
  }
  return absl::BytesToHexString(ledger_.record().catalogue_id());
}

void Job::State::ForgetClosedStreams() {
  for (const Output& output : ledger_.actions().outputs) {
    if (const auto* close = std::get_if<CloseStream>(&output); close != nullptr) streams_.erase(close->stream);
  }
}

bool Job::State::IsIdle() const {
  return job_.run == nullptr && streams_.empty() && job_.lobby.IsEmpty() &&
         ledger_.record().state() != v1::JOB_STATE_FORMING && !job_.logged.IsDirty() && !timeline_.IsKept() &&
         !job_.measured.IsDue();
}

int64_t Job::State::SpaceUsed() const {
  size_t bytes = sizeof(State) + ledger_.record().SpaceUsedLong();
  for (const v1::HistoryEntry& entry : ledger_.history().entries()) bytes += entry.SpaceUsedLong();
  for (const v1::WorkerStatus& worker : job_.last.workers) bytes += worker.SpaceUsedLong();
  return static_cast<int64_t>(bytes + kFencedBytes * (job_.fence.size() + job_.drained.size()));
}

}  // namespace farandole
