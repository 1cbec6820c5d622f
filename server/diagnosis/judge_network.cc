// The part of Judge that looks at the network between hosts.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/diagnosis/judge.h"
#include "server/diagnosis/median.h"

namespace farandole {
namespace {

// Of a host's network that stands out, and of one in which none does.
constexpr double kLeastHostShare = 0.15;
constexpr double kLeastShareOfAll = 0.4;
// Links of one network differ by less.
constexpr double kSlower = 2;
// Smaller messages tell of latency, and of when the other side happens to acknowledge them.
constexpr double kBulkBytesAStep = 32 << 10;
// All of eight hosts.
constexpr size_t kFewLinks = 56;

std::string Megabytes(double rate) { return absl::StrFormat("%.*f MB/s", rate < 10e6 ? 1 : 0, rate / 1e6); }

}  // namespace

std::vector<HostLinks::Link> Judge::BulkLinks() const {
  std::vector<HostLinks::Link> bulk;
  if (steps_ == 0 || seconds_ <= 0) return bulk;
  const double steps_a_second = static_cast<double>(steps_) / seconds_;
  for (const HostLinks::Link& link : measured_.links().Recent()) {
    if (link.bytes >= kBulkBytesAStep * steps_a_second) bulk.push_back(link);
  }
  return bulk;
}

// Rates of the links that neither begin nor end at the host. Of two hosts there are none: then those of the other
// direction. Of many links the host's own are few.
double Judge::RateBeside(const std::vector<HostLinks::Link>& links, uint32_t host, bool sends) {
  std::vector<double> others;
  std::vector<double> back;
  for (const HostLinks::Link& link : links) {
    if (links.size() > kFewLinks || (link.from != host && link.to != host)) {
      others.push_back(link.rate);
    } else if ((sends ? link.to : link.from) == host) {
      back.push_back(link.rate);
    }
  }
  return MedianOf(others.empty() ? std::move(back) : std::move(others));
}

// A host with a slow network stands at one end of every slow link: all that it sends, or receives, goes slowly, and
// data between others does not. Of two hosts the two directions are compared, and the one that sends is named.
std::optional<Judge::SlowHost> Judge::FindSlowHost(const std::vector<HostLinks::Link>& links) const {
  struct Direction {
    double quickest = 0;
    double busy = 0;
  };
  std::map<std::pair<uint32_t, bool>, Direction> directions;
  for (const HostLinks::Link& link : links) {
    for (const bool sends : {true, false}) {
      Direction& direction = directions[{sends ? link.from : link.to, sends}];
      direction.quickest = std::max(direction.quickest, link.rate);
      direction.busy = std::max(direction.busy, link.busy);
    }
  }
  std::optional<double> of_all;
  std::map<uint32_t, SlowHost> slow;
  for (const auto& [end, direction] : directions) {
    const auto& [host, sends] = end;
    if (!of_all.has_value() || links.size() <= kFewLinks) of_all = RateBeside(links, host, sends);
    if (kSlower * direction.quickest > *of_all) continue;
    SlowHost& found = slow[host];
    found.host = host;
    (sends ? found.sends : found.receives) = true;
    const double excess = direction.busy * (1 - direction.quickest / *of_all);
    if (excess < found.excess) continue;
    found.rate = direction.quickest;
    found.others = *of_all;
    found.busy = direction.busy;
    found.excess = excess;
  }
  if (slow.empty()) return std::nullopt;
  const auto weight = [](const SlowHost& one) {
    return std::make_tuple(one.sends && one.receives, one.sends, one.excess);
  };
  return std::max_element(slow.begin(), slow.end(),
                          [&](const auto& a, const auto& b) { return weight(a.second) < weight(b.second); })
      ->second;
}

double Judge::LeastInCalls() const {
  double least = 1;
  for (const Row& row : rows_) least = std::min(least, row.waited + row.transfer);
  return least;
}

// In the quickest ten seconds that are known; 0: none are.
double Judge::BestTransferAStep() const {
  double best = 0;
  for (const auto& [number, one] : measured_.history().ReadFinest(rows_[0].rank)) {
    if (one.steps == 0 || one.transfer == 0) continue;
    const double a_step = one.transfer / 1000.0 * one.tenths / 10 / one.steps;
    if (best == 0 || a_step < best) best = a_step;
  }
  return best;
}

void Judge::JudgeNetwork(Diagnosis* diagnosis) const {
  bool is_on_one_host = true;
  for (const Row& row : rows_) is_on_one_host &= measured_.host(row.rank) == measured_.host(rows_[0].rank);
  if (is_on_one_host || steps_ < kLeastSteps) return;
  const std::vector<HostLinks::Link> links = BulkLinks();
  const double in_calls = LeastInCalls();
  Blocker blocker;
  blocker.cause = Cause::kSlowNetwork;
  blocker.steps = steps_;
  if (const std::optional<SlowHost> slow = FindSlowHost(links); slow.has_value()) {
    // Data that travels while the program computes costs nothing.
    const double share = std::min(slow->excess, in_calls);
    if (share >= kLeastHostShare) BlameHost(*slow, share, &blocker);
  }
  if (!blocker.host.has_value()) {
    double busiest = 0;
    for (const HostLinks::Link& link : links) busiest = std::max(busiest, link.busy);
    const double share = std::max(SharesOf().transfer, std::min(busiest, in_calls));
    if (share < kLeastShareOfAll) return;
    BlameNetwork(share, &blocker);
  }
  blocker.since =
      OnsetOf(rows_[0].rank, [&](int64_t bucket) { return mean_in_calls_[static_cast<size_t>(end_ - 1 - bucket)]; }).at;
  diagnosis->blockers.push_back(std::move(blocker));
}

void Judge::BlameHost(const SlowHost& slow, double share, Blocker* blocker) const {
  blocker->host = slow.host;
  blocker->percent = 100 * share;
  blocker->lost_seconds_a_minute = 60 * share;
  const Measurements::Network& network = measured_.network(slow.host);
  const char* const does = !slow.receives ? " sends " : !slow.sends ? " receives " : " sends and receives ";
  blocker->sentence = absl::StrCat(
      around_.name_host(slow.host), does, Megabytes(slow.rate), " while data is under way (",
      absl::StrFormat("%.0f %% of the time), others ", 100 * slow.busy), Megabytes(slow.others),
      absl::StrFormat("; all ranks waited %.1f s a minute for it; it sent %.1f segments a second again: slow network",
                      60 * share, network.retransmits));
}

// All of them are slow, or one cannot say which is: the price is what they were quicker once, if they were, and else
// all of their time.
void Judge::BlameNetwork(double share, Blocker* blocker) const {
  const double now = SharesOf().transfer * seconds_ / static_cast<double>(steps_);
  const double best = BestTransferAStep();
  const bool were_quicker = best > 0 && kSlower * best <= now;
  const double lost = were_quicker ? share * (1 - best / now) : share;
  blocker->percent = 100 * lost;
  blocker->lost_seconds_a_minute = 60 * lost;
  blocker->sentence =
      absl::StrCat(absl::StrFormat("waits for data between hosts took %.1f s of each minute", 60 * share),
                   were_quicker ? absl::StrFormat(" (%.1f s for as many steps at best)", 60 * (share - lost)) : "",
                   ", and no host stands out: slow network between the hosts");
}

// Posts of a host with a slow link come late, too.
void Judge::DropExplained(Diagnosis* diagnosis) const {
  const auto network = std::find_if(diagnosis->blockers.begin(), diagnosis->blockers.end(),
                                    [](const Blocker& blocker) { return blocker.host.has_value(); });
  if (network == diagnosis->blockers.end()) return;
  const Blocker cause = *network;
  const auto is_explained = [&](const Blocker& blocker) {
    return blocker.rank.has_value() && measured_.host(*blocker.rank) == *cause.host && blocker.percent < cause.percent;
  };
  diagnosis->blockers.erase(std::remove_if(diagnosis->blockers.begin(), diagnosis->blockers.end(), is_explained),
                            diagnosis->blockers.end());
}

}  // namespace farandole
