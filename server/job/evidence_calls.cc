#include "server/job/evidence_calls.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/job/evidence/flight_judge.h"
#include "server/job/evidence/stack_groups.h"
#include "server/job/rules/bounds.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// A worker whose interpreter is locked gives it up after a second, and then reads the stacks without.
constexpr absl::Duration kAnswerTime = absl::Seconds(4);
constexpr size_t kMostCalls = 4;
constexpr uint32_t kMostOthers = 64;
// Records of all ranks together that are kept of an epoch that has ended, some 100 bytes each.
constexpr int kMostRecords = 65536;
constexpr int kLeastRecordsOfRank = 4;

// The latest so many.
void Shorten(int most, v1::FlightRecords* flight) {
  if (flight->records_size() <= most) return;
  flight->mutable_records()->DeleteSubrange(0, flight->records_size() - most);
}

std::map<uint32_t, v1::FlightRecords> FlightsOf(const std::map<uint32_t, v1::Evidence>& evidence) {
  std::map<uint32_t, v1::FlightRecords> flights;
  for (const auto& [rank, one] : evidence) flights[rank] = one.flight();
  return flights;
}

}  // namespace

std::vector<uint32_t> EvidenceCalls::Chosen() const {
  const Roster& roster = job_.run->roster();
  std::set<uint32_t> chosen = job_.run->Missing();
  for (uint32_t rank = 0; rank < roster.size() && rank < kMostOthers; ++rank) chosen.insert(rank);
  std::vector<uint32_t> ranks;
  for (const uint32_t rank : chosen) {
    if (!roster.seat(rank).left) ranks.push_back(rank);
  }
  return ranks;
}

void EvidenceCalls::On(const EvidenceRequested& event) {
  if (job_.run == nullptr) return AnswerFromRecords(event.call);
  if (waiting_.size() >= kMostCalls) {
    return job_.ledger.Answer<v1::DiagnoseResponse>(
        event.call,
        absl::ResourceExhaustedError(absl::StrCat("job ", job_.ledger.name(), " is being diagnosed by ", kMostCalls,
                                                  " calls already; try again in some seconds")));
  }
  Waiting waiting;
  waiting.call = event.call;
  waiting.inquiry = ++last_inquiry_;
  waiting.epoch = job_.run->epoch().number();
  waiting.size = job_.run->roster().size();
  waiting.until = job_.ledger.now() + kAnswerTime;
  v1::CoordinatorMessage message;
  message.mutable_evidence_wanted()->set_epoch(waiting.epoch);
  message.mutable_evidence_wanted()->set_inquiry(waiting.inquiry);
  message.mutable_evidence_wanted()->set_stacks(event.stacks);
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

void EvidenceCalls::On(const FlightReported& event) {
  const v1::ReportFlightRequest& report = event.request;
  if (absl::Status status = CheckReportFlight(report); !status.ok())
    return job_.ledger.Answer<v1::ReportFlightResponse>(event.call, status);
  const v1::Epoch& epoch = job_.ledger.record().epoch();
  const auto size = static_cast<uint32_t>(epoch.members_size());
  const int most = std::max(kLeastRecordsOfRank, kMostRecords / std::max<int>(1, static_cast<int>(size)));
  JobParts::LastEpoch& last = job_.last;
  for (const v1::FlightRecords& flight : report.flights()) {
    if (job_.run != nullptr || flight.epoch() != epoch.number() || flight.rank() >= size) continue;
    v1::FlightRecords& kept = last.flights[flight.rank()];
    kept = flight;
    Shorten(most, &kept);
  }
  v1::ReportFlightResponse response;
  if (!last.flights.empty()) response.set_sentence(JudgeFlights(last.flights, size).sentence);
  if (!response.sentence().empty() && response.sentence() != last.flight) {
    last.flight = response.sentence();
    job_.ledger.Tell(LogLine::Level::kInform, last.flight);
  }
  job_.ledger.Answer<v1::ReportFlightResponse>(event.call, std::move(response));
}

void EvidenceCalls::Take(uint32_t rank, const v1::Evidence& evidence) {
  for (Waiting& waiting : waiting_) {
    if (waiting.inquiry == evidence.inquiry() && waiting.unanswered.erase(rank) > 0) waiting.evidence[rank] = evidence;
  }
}

void EvidenceCalls::Settle() {
  const auto is_over = [this](const Waiting& waiting) {
    return waiting.unanswered.empty() || waiting.until <= job_.ledger.now() || job_.run == nullptr ||
           job_.run->epoch().number() != waiting.epoch;
  };
  for (Waiting& waiting : waiting_) {
    if (is_over(waiting)) Finish(&waiting);
  }
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), [](const Waiting& one) { return one.call == 0; }),
                 waiting_.end());
}

absl::Time EvidenceCalls::Deadline() const {
  absl::Time deadline = absl::InfiniteFuture();
  for (const Waiting& waiting : waiting_) deadline = std::min(deadline, waiting.until);
  return deadline;
}

void EvidenceCalls::Finish(Waiting* waiting) {
  for (const uint32_t rank : waiting->unanswered) {
    waiting->silent[rank] =
        absl::StrCat("it did not answer within ", ShowDuration(kAnswerTime), ": its process is stopped, or cut off");
  }
  v1::DiagnoseResponse response;
  response.set_epoch(waiting->epoch);
  response.set_size(waiting->size);
  FlightFinding finding = JudgeFlights(FlightsOf(waiting->evidence), waiting->size);
  response.set_sentence(finding.sentence);
  for (v1::FlightWait& wait : finding.waits) *response.add_waits() = std::move(wait);
  for (v1::StackGroup& group : GroupStacks(waiting->evidence)) *response.add_stacks() = std::move(group);
  std::map<uint32_t, v1::RankEvidence> ranks;
  for (auto& [rank, evidence] : waiting->evidence) *ranks[rank].mutable_evidence() = std::move(evidence);
  for (auto& [rank, why] : waiting->silent) ranks[rank].set_silence(std::move(why));
  for (auto& [rank, one] : ranks) {
    one.set_rank(rank);
    *response.add_ranks() = std::move(one);
  }
  job_.ledger.Answer<v1::DiagnoseResponse>(std::exchange(waiting->call, 0), std::move(response));
}

void EvidenceCalls::AnswerFromRecords(CallId call) {
  const auto size = static_cast<uint32_t>(job_.ledger.record().epoch().members_size());
  v1::DiagnoseResponse response;
  response.set_epoch(job_.ledger.record().epoch().number());
  response.set_size(size);
  FlightFinding finding = JudgeFlights(job_.last.flights, size);
  if (!job_.last.flights.empty()) response.set_sentence(finding.sentence);
  for (v1::FlightWait& wait : finding.waits) *response.add_waits() = std::move(wait);
  for (const auto& [rank, flight] : job_.last.flights) {
    v1::RankEvidence* const one = response.add_ranks();
    one->set_rank(rank);
    *one->mutable_evidence()->mutable_flight() = flight;
    one->mutable_evidence()->set_about_stacks("its process has ended; its launcher has read the recorder");
  }
  job_.ledger.Answer<v1::DiagnoseResponse>(call, std::move(response));
}

}  // namespace farandole
