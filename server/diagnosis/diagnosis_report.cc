#include "server/diagnosis/diagnosis_report.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/text/plain_text.h"
#include "server/diagnosis/median.h"

namespace farandole {
namespace {

v1::Measured ShowShares(const Shares& shares) {
  v1::Measured measured;
  measured.set_seconds(shares.seconds);
  measured.set_steps(shares.steps);
  measured.set_own_percent(100 * shares.own);
  measured.set_waited_percent(100 * shares.waited);
  measured.set_transfer_percent(100 * shares.transfer);
  if (shares.seconds > 0) measured.set_slowdown(shares.Slowdown());
  return measured;
}

v1::Blocker ShowBlocker(const Blocker& blocker, const EpochFacts& around, absl::Duration wall_ahead) {
  v1::Blocker shown;
  shown.set_cause(CauseName(blocker.cause));
  if (blocker.rank.has_value()) shown.set_rank(*blocker.rank);
  if (blocker.host.has_value()) shown.set_host(around.name_host(*blocker.host));
  shown.set_lost_seconds_a_minute(blocker.lost_seconds_a_minute);
  shown.set_percent(blocker.percent);
  shown.set_own_ratio(blocker.own_ratio);
  shown.set_last_steps(blocker.last_steps);
  shown.set_steps(blocker.steps);
  shown.set_since_unix_ms(absl::ToUnixMillis(blocker.since + wall_ahead));
  shown.set_sentence(blocker.sentence);
  shown.set_section(blocker.section);
  return shown;
}

int32_t ShowGpu(std::optional<uint16_t> share) { return share.has_value() ? *share : -1; }

}  // namespace

v1::Diagnosis ReportDiagnosis(const Diagnosis& diagnosis, const Measurements& measurements, const EpochFacts& around,
                              absl::Time now, absl::Duration wall_ahead) {
  v1::Diagnosis shown;
  *shown.mutable_now() = ShowShares(diagnosis.shares);
  shown.set_least_own_seconds_a_step(diagnosis.least_own_a_step);
  for (const Blocker& blocker : diagnosis.blockers) *shown.add_blockers() = ShowBlocker(blocker, around, wall_ahead);
  ReportTotals(measurements, around, wall_ahead, &shown);
  shown.set_at_unix_ms(absl::ToUnixMillis(now + wall_ahead));
  return shown;
}

void ReportTotals(const Measurements& measurements, const EpochFacts& around, absl::Duration wall_ahead,
                  v1::Diagnosis* shown) {
  const Judge judge(measurements, around);
  *shown->mutable_total() = ShowShares(judge.Totals());
  shown->clear_worst();
  if (const std::optional<Blocker> worst = judge.WorstOfAll(); worst.has_value())
    *shown->mutable_worst() = ShowBlocker(*worst, around, wall_ahead);
}

v1::Measured ReportRank(const Measurements& measurements, uint32_t rank, absl::Time now, double least_own_a_step) {
  v1::Measured measured;
  const RankSpan span = measurements.Sum(rank, measurements.EndBucket(now), Judge::kWindow);
  if (span.seconds <= 0) return measured;
  measured.set_seconds(span.seconds);
  measured.set_steps(span.steps);
  measured.set_own_percent(100 * span.own() / span.seconds);
  measured.set_waited_percent(100 * span.waited_for_others() / span.seconds);
  measured.set_transfer_percent(100 * span.waited_in_batch / span.seconds);
  measured.set_cpu_percent(100 * span.cpu / span.seconds);
  measured.set_last_steps(span.last_steps);
  measured.set_alone_seconds(span.alone);
  if (span.steps < kLeastSteps || span.own() <= 0) return measured;
  // The diagnosis may be older than these times by some seconds.
  const auto score = [own = span.own() / static_cast<double>(span.steps)](double least) {
    return std::min(1.0, least / own);
  };
  measured.set_score(score(least_own_a_step));
  measured.set_own_score(score(measurements.LeastOwnAStep(rank)));
  return measured;
}

v1::RankHistory ReportHistory(absl::Span<const RollUpHistory::Point> points) {
  v1::RankHistory shown;
  const bool has_gpu = std::any_of(points.begin(), points.end(),
                                   [](const auto& point) { return point.value.gpu() || point.value.gpu_memory(); });
  for (const RollUpHistory::Point& point : points) {
    const RollUp& value = point.value;
    shown.add_at_unix_ms(absl::ToUnixMillis(point.at));
    shown.add_waited(value.waited);
    shown.add_most_waited(value.most_waited);
    shown.add_transfer(value.transfer);
    shown.add_most_transfer(value.most_transfer);
    shown.add_cpu(value.cpu);
    if (has_gpu) {
      shown.add_gpu(ShowGpu(value.gpu()));
      shown.add_gpu_memory(ShowGpu(value.gpu_memory()));
    }
    // Points may have been measured in a part of their time only.
    shown.add_steps(static_cast<uint32_t>(std::lround(100.0 * value.steps / value.tenths)));
  }
  return shown;
}

v1::NetworkHistory ReportNetwork(absl::Span<const NetworkHistory::Point> points) {
  v1::NetworkHistory shown;
  for (const NetworkHistory::Point& point : points) {
    const NetworkRollUp& value = point.value;
    shown.add_at_unix_ms(absl::ToUnixMillis(point.at));
    shown.add_received_bytes(static_cast<uint64_t>(value.received));
    shown.add_sent_bytes(static_cast<uint64_t>(value.sent));
    shown.add_retransmits(static_cast<uint32_t>(std::lround(100.0 * value.retransmits / value.tenths)));
  }
  return shown;
}

void ReportSections(const Measurements& measurements, uint32_t rank, v1::RankHistory* shown) {
  const SectionTimes& sections = measurements.sections();
  for (size_t section = 0; section < sections.count(); ++section) {
    std::vector<double> all;
    for (uint32_t other = 0; other < measurements.size(); ++other) all.push_back(sections.SecondsAStep(other, section));
    const double median = MedianOf(std::move(all));
    const double own = sections.SecondsAStep(rank, section);
    if (own <= 0 && median <= 0) continue;
    v1::SectionTime* const time = shown->add_sections();
    time->set_name(Plain(sections.name(section), 64));
    time->set_seconds_a_step(own);
    time->set_median_seconds_a_step(median);
  }
  std::sort(shown->mutable_sections()->begin(), shown->mutable_sections()->end(),
            [](const auto& a, const auto& b) { return a.seconds_a_step() > b.seconds_a_step(); });
}

}  // namespace farandole
