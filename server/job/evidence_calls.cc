#include "server/job/evidence_calls.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/job/evidence/collective_survey.h"
#include "server/job/evidence/flight_judge.h"
#include "server/job/evidence/ranks_to_ask.h"
#include "server/job/evidence/stack_groups.h"
#include "server/job/rules/bounds.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// A worker whose interpreter is locked gives it up after a second, and then reads the stacks without.
constexpr absl::Duration kAnswerTime = absl::Seconds(4);
// An answer is given to all who ask within that time, so that their number does not decide how often ranks are asked;
// and at most so many calls wait for one.
constexpr absl::Duration kDistance = absl::Seconds(4);
constexpr size_t kMostCalls = 4;
constexpr size_t kMostSurveyCalls = 64;
// Records of all ranks together that are kept of an epoch that has ended, some 100 bytes each.
constexpr int kMostRecords = 32768;
constexpr int kLeastRecordsOfRank = 4;
// A stall is told again and again; its ranks are asked once in so long.
constexpr absl::Duration kStallDistance = absl::Minutes(10);
// Of their answers so much is kept: some 20 KiB a rank, for 50 ranks.
constexpr size_t kMostStallBytes = 1 << 20;
// Of an answer that calls share: for 200 ranks.
constexpr size_t kMostSharedBytes = 4 << 20;
constexpr int kMostStallRecords = 64;
// Begins the sentence about a stall in the job's history.
constexpr char kAtTheStall[] = "at the stall, ";

// The latest so many records, and the names that they need.
v1::FlightRecords Latest(int most, const v1::FlightRecords& flight) {
  v1::FlightRecords latest;
  latest.set_epoch(flight.epoch());
  if (flight.has_rank()) latest.set_rank(flight.rank());
  latest.set_size(flight.size());
  latest.set_pid(flight.pid());
  latest.set_unrecorded(flight.unrecorded());
  std::map<uint32_t, uint32_t> names;
  for (int i = std::max(0, flight.records_size() - most); i < flight.records_size(); ++i) {
    const uint32_t name = flight.records(i).name();
    if (name >= static_cast<uint32_t>(flight.names_size())) continue;
    const auto [kept, is_new] = names.try_emplace(name, static_cast<uint32_t>(latest.names_size()));
    if (is_new) latest.add_names(flight.names(static_cast<int>(name)));
    *latest.add_records() = flight.records(i);
    latest.mutable_records()->rbegin()->set_name(kept->second);
  }
  return latest;
}

void AddFinding(FlightFinding finding, v1::DiagnoseResponse* response) {
  response->set_sentence(std::move(finding.sentence));
  for (v1::FlightWait& wait : finding.waits) *response->add_waits() = std::move(wait);
}

bool HasEvidence(const v1::DiagnoseResponse& answer) {
  return absl::c_any_of(answer.ranks(), [](const v1::RankEvidence& rank) { return rank.has_evidence(); });
}

// Leaves out the evidence of ranks beyond so many bytes, last that of those that others wait for.
void LimitEvidence(size_t most, const std::string& why, v1::DiagnoseResponse* answer) {
  std::set<uint32_t> missing;
  for (const v1::FlightWait& wait : answer->waits()) missing.insert(wait.missing().begin(), wait.missing().end());
  size_t bytes = 0;
  for (const bool of_missing : {true, false}) {
    for (v1::RankEvidence& rank : *answer->mutable_ranks()) {
      if ((missing.count(rank.rank()) > 0) != of_missing || !rank.has_evidence()) continue;
      const size_t own = rank.evidence().ByteSizeLong();
      if (bytes + own <= most) {
        bytes += own;
        continue;
      }
      rank.clear_evidence();
      rank.set_silence(
          absl::StrCat("left out: ", why, " of evidence is kept, first that of the ranks that others wait for"));
    }
  }
}

std::map<uint32_t, v1::FlightRecords> FlightsOf(const std::map<uint32_t, v1::Evidence>& evidence) {
  std::map<uint32_t, v1::FlightRecords> flights;
  for (const auto& [rank, one] : evidence) flights[rank] = one.flight();
  return flights;
}

}  // namespace

std::vector<uint32_t> EvidenceCalls::Chosen() const {
  const Roster& roster = job_.run->roster();
  std::vector<uint32_t> blamed;
  const v1::Diagnosis diagnosis = job_.run->diagnosis().Report(absl::ZeroDuration());
  for (const v1::Blocker& blocker : diagnosis.blockers()) {
    if (blocker.has_rank()) blamed.push_back(blocker.rank());
  }
  std::vector<uint32_t> ranks;
  for (const uint32_t rank : RanksToAsk(job_.run->Missing().Ranks(), blamed, roster.size())) {
    if (!roster.seat(rank).left) ranks.push_back(rank);
  }
  return ranks;
}

void EvidenceCalls::On(const EvidenceRequested& event) {
  if (event.last_stall) return AnswerFromStall(event.call);
  if (job_.run == nullptr) return AnswerFromRecords(event.call);
  ForgetShared();
  const v1::DiagnoseResponse& last = shared_[event.stacks ? 1 : 0].answer;
  if (last.epoch() != 0) return job_.ledger.Answer<v1::DiagnoseResponse>(event.call, v1::DiagnoseResponse(last));
  if (Join(event.call, Purpose::kCall, event.stacks, kMostCalls)) return;
  job_.ledger.Answer<v1::DiagnoseResponse>(
      event.call, absl::ResourceExhaustedError(absl::StrCat("job ", job_.ledger.name(), " is being diagnosed by ",
                                                            kMostCalls, " calls already; try again in some seconds")));
}

void EvidenceCalls::On(const CollectivesSurveyed& event) {
  if (job_.run == nullptr) return AnswerFromLastSurvey(event.call);
  const uint64_t epoch = job_.run->epoch().number();
  if (survey_.epoch() == epoch && job_.ledger.now() < surveyed_at_ + kDistance)
    return job_.ledger.Answer<v1::SurveyCollectivesResponse>(event.call, v1::SurveyCollectivesResponse(survey_));
  if (Join(event.call, Purpose::kSurvey, /*has_stacks=*/false, kMostSurveyCalls)) return;
  job_.ledger.Answer<v1::SurveyCollectivesResponse>(
      event.call, absl::ResourceExhaustedError(absl::StrCat(kMostSurveyCalls, " calls ask job ", job_.ledger.name(),
                                                            " for its collectives already; try again in ",
                                                            ShowDuration(kDistance))));
}

bool EvidenceCalls::Join(CallId call, Purpose purpose, bool has_stacks, size_t most) {
  const auto asked = absl::c_find_if(waiting_, [&](const Waiting& waiting) {
    return waiting.purpose == purpose && waiting.has_stacks == has_stacks && Runs(waiting.epoch);
  });
  if (asked != waiting_.end()) {
    if (asked->calls.size() >= most) return false;
    asked->calls.push_back(call);
    return true;
  }
  Waiting waiting;
  waiting.purpose = purpose;
  waiting.calls = {call};
  waiting.has_stacks = has_stacks;
  Ask(std::move(waiting));
  return true;
}

void EvidenceCalls::Ask(Waiting waiting) {
  waiting.inquiry = ++last_inquiry_;
  waiting.charge = ByteCharge(job_.options.bytes, ByteKind::kReports);
  waiting.epoch = job_.run->epoch().number();
  waiting.size = job_.run->roster().size();
  waiting.until = job_.ledger.now() + kAnswerTime;
  v1::CoordinatorMessage message;
  message.mutable_evidence_wanted()->set_epoch(waiting.epoch);
  message.mutable_evidence_wanted()->set_inquiry(waiting.inquiry);
  message.mutable_evidence_wanted()->set_stacks(waiting.has_stacks);
  message.mutable_evidence_wanted()->set_times(waiting.purpose == Purpose::kSurvey);
  const SharedMessage shared = Share(std::move(message));
  for (const uint32_t rank : Chosen()) {
    if (job_.run->roster().seat(rank).stream == 0) {
      waiting.silent[rank] = "its connection to the coordinator is broken";
      continue;
    }
    waiting.unanswered.insert(rank);
    job_.run->SendTo(rank, shared, job_.ledger.effects());
  }
  waiting_.push_back(std::move(waiting));
}

void EvidenceCalls::AskIfStalled() {
  if (job_.run == nullptr || job_.run->last_stall().empty() || job_.run->last_stall_at() == noticed_) return;
  noticed_ = job_.run->last_stall_at();
  const uint64_t epoch = job_.run->epoch().number();
  if (asked_in_ == epoch && job_.ledger.now() < asked_at_ + kStallDistance) return;
  asked_in_ = epoch;
  asked_at_ = job_.ledger.now();
  Waiting waiting;
  waiting.purpose = Purpose::kStall;
  waiting.has_stacks = true;
  Ask(std::move(waiting));
}

void EvidenceCalls::On(const FlightReported& event) {
  const v1::ReportFlightRequest& report = event.request;
  if (absl::Status status = CheckReportFlight(report); !status.ok())
    return job_.ledger.Answer<v1::ReportFlightResponse>(event.call, status);
  const v1::Launch& run = job_.ledger.record().launch();
  const absl::Status allowed = job_.launch_tokens.CheckTakesPart(job_.ledger.name(), run, event.only_of_token);
  if (!allowed.ok()) return job_.ledger.Answer<v1::ReportFlightResponse>(event.call, allowed);
  const v1::Epoch& epoch = job_.ledger.record().epoch();
  const auto size = static_cast<uint32_t>(epoch.members_size());
  const int most = std::max(kLeastRecordsOfRank, kMostRecords / std::max<int>(1, static_cast<int>(size)));
  JobParts::LastEpoch& last = job_.last;
  for (const v1::FlightRecords& flight : report.flights()) {
    if (job_.run != nullptr || flight.epoch() != epoch.number() || flight.rank() >= size) continue;
    const std::string& incarnation = epoch.members(static_cast<int>(flight.rank())).incarnation();
    if (!job_.launch_tokens.HasLaunched(run, event.only_of_token, incarnation)) continue;
    last.flights.Keep(flight.rank(), Latest(most, flight), job_.options.bytes);
  }
  TellOfEndedFlights();
  v1::ReportFlightResponse response;
  // Until all records are judged, it might name a rank whose record has just come.
  if (last.flights.JudgesAt() == absl::InfiniteFuture()) response.set_sentence(last.flight);
  job_.ledger.Answer<v1::ReportFlightResponse>(event.call, std::move(response));
}

void EvidenceCalls::TellOfEndedFlights() {
  JobParts::LastEpoch& last = job_.last;
  if (job_.run != nullptr || last.flights.empty()) return;
  const auto size = static_cast<uint32_t>(job_.ledger.record().epoch().members_size());
  const std::string& sentence = last.flights.Judge(size, job_.ledger.now()).sentence;
  if (sentence == last.flight) return;
  if (!sentence.empty()) job_.ledger.Tell(LogLine::Level::kInform, sentence);
  last.flight = sentence;
}

void EvidenceCalls::Take(uint32_t rank, const v1::Evidence& evidence) {
  for (Waiting& waiting : waiting_) {
    if (waiting.inquiry != evidence.inquiry() || waiting.unanswered.erase(rank) == 0) continue;
    const absl::Status room = waiting.charge.Grow(static_cast<int64_t>(evidence.SpaceUsedLong()), ByteClass::kObserver);
    if (room.ok()) {
      waiting.evidence[rank] = evidence;
    } else {
      waiting.silent[rank] = absl::StrCat("left out: ", room.message());
    }
  }
}

void EvidenceCalls::Settle() {
  AskIfStalled();
  TellOfEndedFlights();
  ForgetShared();
  const auto is_over = [this](const Waiting& waiting) {
    return waiting.unanswered.empty() || waiting.until <= job_.ledger.now() || !Runs(waiting.epoch);
  };
  for (Waiting& waiting : waiting_) {
    PassOverThoseThatLeft(&waiting);
    if (!is_over(waiting)) continue;
    waiting.is_over = true;
    NameSilent(&waiting);
    if (waiting.purpose == Purpose::kSurvey) {
      ConcludeSurvey(&waiting);
    } else if (waiting.purpose == Purpose::kStall) {
      KeepStall(Conclude(&waiting));
    } else {
      AnswerCalls(waiting, Conclude(&waiting));
    }
  }
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), [](const Waiting& one) { return one.is_over; }),
                 waiting_.end());
}

absl::Time EvidenceCalls::Deadline() const {
  absl::Time deadline = job_.run == nullptr ? job_.last.flights.JudgesAt() : absl::InfiniteFuture();
  for (const Waiting& waiting : waiting_) deadline = std::min(deadline, waiting.until);
  for (const Shared& shared : shared_) {
    if (shared.answer.epoch() != 0) deadline = std::min(deadline, shared.until);
  }
  return deadline;
}

bool EvidenceCalls::Runs(uint64_t epoch) const { return job_.run != nullptr && job_.run->epoch().number() == epoch; }

void EvidenceCalls::PassOverThoseThatLeft(Waiting* waiting) const {
  if (!Runs(waiting->epoch)) return;
  for (auto rank = waiting->unanswered.begin(); rank != waiting->unanswered.end();) {
    if (!job_.run->roster().seat(*rank).left) {
      ++rank;
      continue;
    }
    waiting->silent[*rank] = "it has left the job";
    rank = waiting->unanswered.erase(rank);
  }
}

void EvidenceCalls::NameSilent(Waiting* waiting) const {
  const std::string why = Runs(waiting->epoch) ? absl::StrCat("it did not answer within ", ShowDuration(kAnswerTime),
                                                              ": its process is stopped, or cut off")
                                               : absl::StrCat("epoch ", waiting->epoch, " ended before it answered");
  for (const uint32_t rank : waiting->unanswered) waiting->silent[rank] = why;
}

v1::DiagnoseResponse EvidenceCalls::Conclude(Waiting* waiting) const {
  v1::DiagnoseResponse response;
  response.set_epoch(waiting->epoch);
  response.set_size(waiting->size);
  AddFinding(JudgeFlights(FlightsOf(waiting->evidence), response.size()), &response);
  for (v1::StackGroup& group : GroupStacks(waiting->evidence)) *response.add_stacks() = std::move(group);
  std::map<uint32_t, v1::RankEvidence> ranks;
  for (auto& [rank, evidence] : waiting->evidence) *ranks[rank].mutable_evidence() = std::move(evidence);
  for (auto& [rank, why] : waiting->silent) ranks[rank].set_silence(std::move(why));
  for (auto& [rank, one] : ranks) {
    one.set_rank(rank);
    *response.add_ranks() = std::move(one);
  }
  return response;
}

void EvidenceCalls::AnswerCalls(const Waiting& waiting, v1::DiagnoseResponse answer) {
  for (const CallId call : waiting.calls) job_.ledger.Answer<v1::DiagnoseResponse>(call, v1::DiagnoseResponse(answer));
  if (!Runs(waiting.epoch) || !HasEvidence(answer)) return;
  LimitEvidence(kMostSharedBytes, "of an answer that several share, 4 MiB", &answer);
  Shared& shared = shared_[waiting.has_stacks ? 1 : 0];
  shared.answer = std::move(answer);
  shared.until = job_.ledger.now() + kDistance;
  shared.charge = ByteCharge(job_.options.bytes, ByteKind::kReports);
  shared.charge.Resize(static_cast<int64_t>(shared.answer.SpaceUsedLong()));
}

void EvidenceCalls::ForgetShared() {
  for (Shared& shared : shared_) {
    if (shared.answer.epoch() == 0 || (Runs(shared.answer.epoch()) && job_.ledger.now() < shared.until)) continue;
    shared = Shared();
  }
}

void EvidenceCalls::ConcludeSurvey(Waiting* waiting) {
  std::map<uint32_t, v1::FlightRecords> flights;
  for (auto& [rank, one] : waiting->evidence) flights[rank].Swap(one.mutable_flight());
  v1::SurveyCollectivesResponse answer = SurveyCollectives(flights, waiting->size);
  answer.set_epoch(waiting->epoch);
  answer.set_asked_unix_ms(absl::ToUnixMillis(job_.ledger.now() + job_.ledger.wall_ahead()));
  for (auto& [rank, why] : waiting->silent) {
    v1::RankEvidence* const silent = answer.add_silent();
    silent->set_rank(rank);
    silent->set_silence(std::move(why));
  }
  for (const CallId call : waiting->calls)
    job_.ledger.Answer<v1::SurveyCollectivesResponse>(call, v1::SurveyCollectivesResponse(answer));
  if (answer.answered() == 0) return;
  surveyed_at_ = job_.ledger.now();
  // While a job ends, fewer and fewer ranks are there to answer; what all have said is worth more.
  const bool have_all_stayed = Runs(waiting->epoch) && job_.run->roster().staying() == waiting->size;
  if (!have_all_stayed && survey_.epoch() == answer.epoch() && survey_.answered() > answer.answered()) return;
  survey_ = std::move(answer);
  survey_charge_.Resize(static_cast<int64_t>(survey_.SpaceUsedLong()));
}

void EvidenceCalls::AnswerFromLastSurvey(CallId call) {
  JobParts::LastEpoch& last = job_.last;
  const v1::Epoch& epoch = job_.ledger.record().epoch();
  v1::SurveyCollectivesResponse answer;
  if (survey_.epoch() != 0 && (survey_.epoch() == epoch.number() || last.flights.empty())) {
    answer = survey_;
  } else if (!last.flights.empty()) {
    answer = last.flights.Survey(static_cast<uint32_t>(epoch.members_size()), job_.ledger.now());
    answer.set_epoch(epoch.number());
  } else {
    return job_.ledger.Answer<v1::SurveyCollectivesResponse>(
        call, absl::NotFoundError(absl::StrCat("no epoch of job ", job_.ledger.name(),
                                               " runs, and its ranks were not asked for their collectives while one "
                                               "ran")));
  }
  answer.set_is_over(true);
  job_.ledger.Answer<v1::SurveyCollectivesResponse>(call, std::move(answer));
}

void EvidenceCalls::KeepStall(v1::DiagnoseResponse answer) {
  if (!HasEvidence(answer)) return;
  answer.set_stalled_unix_ms(absl::ToUnixMillis(asked_at_ + job_.ledger.wall_ahead()));
  for (v1::RankEvidence& rank : *answer.mutable_ranks()) {
    if (rank.has_evidence())
      *rank.mutable_evidence()->mutable_flight() = Latest(kMostStallRecords, rank.evidence().flight());
  }
  LimitEvidence(kMostStallBytes, "of a stall, 1 MiB", &answer);
  if (!answer.sentence().empty()) {
    job_.ledger.Tell(LogLine::Level::kInform, absl::StrCat(kAtTheStall, answer.sentence()));
    job_.ledger.MarkChanged();
    const bool is_shown =
        job_.run == nullptr ? job_.last.flights.empty() : job_.run->epoch().number() == answer.epoch();
    if (is_shown) job_.last.flight = absl::StrCat("at the last stall, ", answer.sentence());
  }
  stall_ = std::move(answer);
  stall_charge_.Resize(static_cast<int64_t>(stall_.SpaceUsedLong()));
}

void EvidenceCalls::AnswerFromStall(CallId call) {
  if (stall_.epoch() != 0) return job_.ledger.Answer<v1::DiagnoseResponse>(call, v1::DiagnoseResponse(stall_));
  const std::string job = absl::StrCat("job ", job_.ledger.name());
  const auto is_of_stall = [](const Waiting& waiting) { return waiting.purpose == Purpose::kStall; };
  // The history outlives the coordinator's process, and the evidence does not.
  const auto is_stall = [](const v1::HistoryEntry& entry) { return absl::StartsWith(entry.sentence(), kAtTheStall); };
  absl::Status why = absl::NotFoundError(absl::StrCat(job, " has not stalled since this coordinator has known it"));
  if (absl::c_any_of(waiting_, is_of_stall)) {
    why = absl::UnavailableError(
        absl::StrCat(job, " has stalled, and its ranks are being asked; ask again in ", ShowDuration(kAnswerTime)));
  } else if (asked_in_ != 0) {
    why = absl::FailedPreconditionError(
        absl::StrCat(job, " has stalled, and none of its ranks answered within ", ShowDuration(kAnswerTime)));
  } else if (absl::c_any_of(job_.ledger.history().entries(), is_stall)) {
    why = absl::FailedPreconditionError(
        absl::StrCat(job, " has stalled before this coordinator was started, and what its ranks said then is gone"));
  }
  job_.ledger.Answer<v1::DiagnoseResponse>(call, why);
}

void EvidenceCalls::AnswerFromRecords(CallId call) {
  const uint64_t epoch = job_.ledger.record().epoch().number();
  const bool stalled = stall_.epoch() != 0 && stall_.epoch() == epoch;
  if (stalled && job_.last.flights.empty()) return AnswerFromStall(call);
  v1::DiagnoseResponse response;
  // Stacks are gone with the processes, unless they were read before.
  if (stalled) *response.mutable_stacks() = stall_.stacks();
  if (stalled) response.set_stalled_unix_ms(stall_.stalled_unix_ms());
  response.set_epoch(epoch);
  response.set_size(static_cast<uint32_t>(job_.ledger.record().epoch().members_size()));
  AddFinding(job_.last.flights.Judge(response.size(), job_.ledger.now()), &response);
  for (const auto& [rank, flight] : job_.last.flights.by_rank()) {
    v1::RankEvidence* const one = response.add_ranks();
    one->set_rank(rank);
    *one->mutable_evidence()->mutable_flight() = flight;
    one->mutable_evidence()->set_about_stacks("its process has ended; its launcher has read the recorder");
  }
  job_.ledger.Answer<v1::DiagnoseResponse>(call, std::move(response));
}

}  // namespace farandole
