#include "server/job/losses.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/job/rules/own_launch.h"
#include "server/job/rules/wording.h"

namespace farandole {

void Losses::NoteLosses(const Roster& roster, const std::vector<uint32_t>& lost, const std::string& sentence,
                        bool blames_hosts) {
  if (!job_.IsElastic()) return;
  for (const uint32_t rank : lost) {
    const v1::Member& member = roster.seat(rank).member;
    const bool is_counted = blames_hosts && !roster.seat(rank).drained;
    job_.failures.NoteLoss(member, sentence, is_counted, ledger_.now());
    if (is_counted) CountFailure(member.hostname());
  }
}

void Losses::LoseSurvivors(const std::vector<Roster::Loss>& losses) {
  const Roster& roster = job_.survivors->roster();
  const std::string sentence = roster.DescribeLosses(losses);
  std::vector<uint32_t> ranks;
  for (const Roster::Loss& loss : losses) {
    const StreamId stream = roster.seat(loss.rank).stream;
    if (stream != 0) ledger_.Close(stream, absl::AbortedError(sentence));
    job_.fence.Shut(roster.seat(loss.rank).member.incarnation(), sentence);
    job_.survivors->Lose(loss.rank, loss.claim);
    if (stream != 0) job_.survivors->Detach(loss.rank, sentence, ledger_.now());
    ranks.push_back(loss.rank);
  }
  ledger_.MarkChanged();
  ledger_.Tell(LogLine::Level::kWarn, sentence);
  ledger_.Trace([&](RunTrace& trace, absl::Time at) { trace.NoteLoss(ranks, sentence, at); });
  NoteLosses(roster, ranks, sentence, true);
}

void Losses::Forsake(uint32_t rank, const std::string& claim) {
  job_.run->Forsake(rank, claim);
  ledger_.MarkChanged();
}

absl::StatusOr<bool> Losses::Believe(const v1::ReportExitRequest& report, const std::string& only_of_token) const {
  const LaunchTokens& tokens = job_.launch_tokens;
  const v1::Launch& run = ledger_.record().launch();
  if (!tokens.CheckTakesPart(ledger_.name(), run, only_of_token).ok())
    return CheckReporter(ledger_.name(), run, only_of_token);
  if (LaunchTokens::HasLaunchedRun(run, only_of_token)) return true;
  // Launches that take part have other numbers; one that gives a worker another's number does not end that.
  std::vector<const v1::Member*> numbered;
  const Lobby::Worker* const waiting = job_.lobby.FindLaunched(report.launch_index());
  if (waiting != nullptr) numbered.push_back(&waiting->member);
  const Roster* const roster = job_.PresentRoster();
  const auto rank = roster == nullptr ? std::nullopt : roster->RankLaunched(report.launch_index());
  if (rank.has_value()) numbered.push_back(&roster->seat(*rank).member);
  for (const v1::Member* member : numbered) {
    if (tokens.HasLaunched(run, only_of_token, member->incarnation())) continue;
    return absl::PermissionDeniedError(absl::StrCat(DescribeWorker(*member), " of job ", ledger_.name(),
                                                    " was started by another launch than that of token ", only_of_token,
                                                    ", which may report its own workers only"));
  }
  return !numbered.empty();
}

void Losses::TakeExit(const v1::ReportExitRequest& report) {
  const std::string end = report.end().empty() ? "how is not known" : Plain(report.end(), 256);
  const std::string failed_host = FailedHost(report);
  // Here or below, if it is lost by this.
  bool is_counted = job_.failures.FindLoss(report.launch_index()) != nullptr;
  const std::string claim = absl::StrCat("its process ended (", end, ", says its launcher)");
  if (const Lobby::Worker* waiting = job_.lobby.FindLaunched(report.launch_index()); waiting != nullptr) {
    const Lobby::Worker worker = *waiting;
    const std::string sentence = absl::StrCat(DescribeWorker(worker.member), ", which waited, was lost: ", claim);
    ledger_.Tell(LogLine::Level::kInform, sentence);
    job_.fence.Shut(worker.member.incarnation(), sentence);
    job_.lobby.Remove(worker.member.incarnation());
    if (worker.stream != 0) ledger_.Close(worker.stream, absl::AbortedError(sentence));
  }
  const Roster* const roster = job_.PresentRoster();
  const auto rank = roster == nullptr ? std::nullopt : roster->RankLaunched(report.launch_index());
  if (rank.has_value() && job_.run != nullptr) {
    const Roster::Seat& seat = roster->seat(*rank);
    is_counted |= !seat.left;
    if (!seat.left) job_.run->Lose(*rank, claim);
    if (seat.returns) Forsake(*rank, claim);
  } else if (rank.has_value() && (job_.survivors->IsAwaited(*rank) || job_.survivors->IsBack(*rank))) {
    is_counted = true;
    LoseSurvivor(*rank, claim);
  }
  if (!failed_host.empty() && !is_counted) CountFailure(failed_host);
  if (!failed_host.empty()) job_.failures.NameHost(failed_host, report.host());
}

void Losses::CountFailure(const std::string& hostname) {
  if (const std::string sentence = job_.failures.Count(hostname, ledger_.now()); !sentence.empty()) {
    ledger_.MarkChanged();
    ledger_.Tell(LogLine::Level::kWarn, sentence);
  }
}

std::string Losses::FailedHost(const v1::ReportExitRequest& report) const {
  if (!report.failed() || !job_.IsElastic() || job_.IsFinishing()) return "";
  if (const LostWorkers::Loss* loss = job_.failures.FindLoss(report.launch_index()); loss != nullptr)
    return loss->is_counted ? loss->hostname : "";
  if (const Lobby::Worker* worker = job_.lobby.FindLaunched(report.launch_index()); worker != nullptr)
    return worker->member.hostname();
  const Roster* const roster = job_.PresentRoster();
  const auto rank = roster == nullptr ? std::nullopt : roster->RankLaunched(report.launch_index());
  if (!rank.has_value()) return report.host();
  return roster->seat(*rank).drained ? "" : roster->seat(*rank).member.hostname();
}

}  // namespace farandole
