#include "server/job/departures.h"

#include <algorithm>
#include <iterator>

#include "absl/algorithm/container.h"
#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

constexpr size_t kMostNamed = 8;

}  // namespace

absl::StatusOr<v1::DrainWorkersResponse> Departures::Drain(const DrainRequested& event) {
  absl::StatusOr<std::vector<uint32_t>> ranks = RanksToDrain(event);
  if (!ranks.ok()) return ranks.status();
  const std::string reason = event.reason.empty() ? "" : absl::StrCat(": ", Plain(event.reason, 1024));
  std::string why = absl::StrCat("an operator drains it", reason);
  if (!event.hostname.empty()) why = absl::StrCat("an operator drains host ", Plain(event.hostname, 64), reason);
  if (!event.launched.empty()) why = absl::StrCat("its launcher drains it", reason);
  DrainRanks(*ranks, why);
  std::vector<Lobby::Worker> waiting;
  for (const std::string& incarnation : WaitingToDrain(event)) {
    waiting.push_back(job_.lobby.Get(incarnation));
    job_.lobby.Remove(incarnation);
  }
  dismissal_.Dismiss(waiting, why, true);
  v1::DrainWorkersResponse response;
  response.mutable_ranks()->Assign(ranks->begin(), ranks->end());
  return response;
}

void Departures::Depart(uint32_t rank, const v1::Departing& departing) {
  const std::string grace = ShowDuration(absl::Milliseconds(std::min<uint64_t>(departing.grace_ms(), 86'400'000)));
  const std::string reason = departing.reason().empty() ? "" : absl::StrCat(": ", Plain(departing.reason(), 1024));
  DrainRanks({rank}, absl::StrCat("its process will be ended in ", grace, reason));
}

void Departures::TellWantedChange() {
  const Roster& roster = job_.run->roster();
  // Workers that wait when the program is over wait for its end.
  if (roster.IsFinishing()) job_.change.reset();
  if (job_.change == nullptr || !job_.change->IsDue(job_.Joining(), roster.drained(), ledger_.now())) return;
  std::vector<uint32_t> leaving;
  for (uint32_t rank = 0; rank < roster.size(); ++rank) {
    if (roster.seat(rank).drained) leaving.push_back(rank);
  }
  std::vector<std::string> claims;
  if (job_.Joining() > 0) {
    claims.push_back(absl::StrCat(Count(job_.Joining(), "worker"), job_.Joining() == 1 ? " waits" : " wait",
                                  " to join: ", job_.lobby.NameWorkers()));
  }
  if (leaving.size() == 1) {
    claims.push_back(*job_.drained.ReasonFor(roster.seat(leaving[0]).member.incarnation()));
  } else if (!leaving.empty()) {
    claims.push_back(absl::StrCat(roster.DescribeAll(leaving, leaving.size()), " are to leave"));
  }
  const std::string sentence = absl::StrJoin(claims, "; ");
  job_.run->SendToAll(Share(job_.change->Tell(job_.Joining(), leaving, sentence)), ledger_.effects());
  ledger_.Change()->set_change_serial(job_.change->serial());
  ledger_.MarkChanged();
  ledger_.Tell(LogLine::Level::kInform, absl::StrCat("members are told: ", sentence));
}

absl::StatusOr<std::vector<uint32_t>> Departures::RanksToDrain(const DrainRequested& event) const {
  if (!job_.IsElastic())
    return absl::FailedPreconditionError(
        absl::StrCat("job ", ledger_.name(), " is not elastic: its workers leave it together"));
  if (job_.run == nullptr)
    return absl::FailedPreconditionError(
        absl::StrCat("job ", ledger_.name(), " has no epoch that runs: ", ledger_.record().reason()));
  const Roster& roster = job_.run->roster();
  const std::string epoch = absl::StrCat("epoch ", job_.run->epoch().number(), " of job ", ledger_.name());
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
      roster.remaining() - more + job_.lobby.newcomers() - std::min(waiting.size(), job_.lobby.newcomers());
  if (more == 0 || remaining >= job_.MinSize()) return ranks;
  return absl::FailedPreconditionError(absl::StrCat("without ", ShowRanks(ranks), " job ", ledger_.name(),
                                                    " would have ", Count(remaining, "worker"),
                                                    ", and its min_size is ", job_.MinSize()));
}

std::vector<std::string> Departures::WaitingToDrain(const DrainRequested& event) const {
  if (!event.hostname.empty()) return job_.lobby.IncarnationsOn(event.hostname);
  std::vector<std::string> waiting;
  for (const auto& [order, worker] : job_.lobby.workers()) {
    if (event.launched.contains(worker.launch_index)) waiting.push_back(worker.member.incarnation());
  }
  return waiting;
}

void Departures::DrainRanks(const std::vector<uint32_t>& ranks, const std::string& why) {
  const Roster& roster = *job_.PresentRoster();
  std::vector<uint32_t> drained;
  for (const uint32_t rank : ranks) {
    if (roster.seat(rank).drained) continue;
    drained.push_back(rank);
    job_.drained.Shut(roster.seat(rank).member.incarnation(),
                      absl::StrCat(roster.Describe(rank), " is to leave: ", why));
    if (job_.run != nullptr) job_.run->Drain(rank);
    if (job_.survivors != nullptr) job_.survivors->Drain(rank);
  }
  if (drained.empty()) return;
  ledger_.MarkChanged();
  const char* const verb = drained.size() == 1 ? " is" : " are";
  ledger_.Tell(LogLine::Level::kInform,
               absl::StrCat(roster.DescribeAll(drained, drained.size()), verb, " to leave: ", why));
}

}  // namespace farandole
