// The part of Judge that looks at the whole epoch, and at what was before.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/diagnosis/change_point.h"
#include "server/diagnosis/judge.h"
#include "server/diagnosis/median.h"

namespace farandole {

Shares Judge::Totals() const {
  Shares shares;
  std::vector<double> steps;
  double count = 0;
  for (uint32_t rank = 0; rank < measured_.size(); ++rank) {
    const RankSpan& total = measured_.Total(rank);
    if (total.seconds <= 0) continue;
    ++count;
    shares.own += total.own() / total.seconds;
    shares.waited += total.waited_for_others() / total.seconds;
    shares.transfer += total.waited_in_batch / total.seconds;
    shares.seconds = std::max(shares.seconds, total.seconds);
    steps.push_back(static_cast<double>(total.steps));
  }
  shares.steps = static_cast<uint64_t>(MedianOf(std::move(steps)));
  if (count == 0) return shares;
  shares.own /= count;
  shares.waited /= count;
  shares.transfer /= count;
  return shares;
}

std::optional<Blocker> Judge::WorstOfAll() const {
  std::vector<double> waited;
  std::vector<double> own;
  std::optional<uint32_t> worst;
  double least = 1;
  for (uint32_t rank = 0; rank < measured_.size(); ++rank) {
    const RankSpan& total = measured_.Total(rank);
    if (total.seconds <= 0) continue;
    const double share = total.waited_for_others() / total.seconds;
    if (!worst.has_value() || share < least) {
      worst = rank;
      least = share;
    }
    waited.push_back(share);
    own.push_back(total.own() / total.seconds);
  }
  if (waited.size() < 2) return std::nullopt;
  waited.erase(std::min_element(waited.begin(), waited.end()));
  const double gap = MedianOf(waited) - least;
  if (gap < kLeastShare) return std::nullopt;
  const RankSpan& total = measured_.Total(*worst);
  Blocker blocker;
  blocker.rank = worst;
  blocker.steps = Totals().steps;
  blocker.last_steps = std::min(total.last_steps, blocker.steps);
  blocker.lost_seconds_a_minute = 60 * gap;
  blocker.percent = 100 * gap * static_cast<double>(waited.size()) / static_cast<double>(waited.size() + 1);
  const double median = MedianOf(own);
  blocker.own_ratio = median > 0 ? total.own() / total.seconds / median : 0;
  blocker.since = measured_.began();
  blocker.sentence =
      absl::StrCat(around_.name_rank(*worst), " was last in ", blocker.last_steps, " of ", blocker.steps,
                   " steps; the others waited ", absl::StrFormat("%.0f s", gap * total.seconds), " for it");
  return blocker;
}

std::optional<absl::Time> Judge::OnsetInHistory(uint32_t rank) const {
  const RollUpHistory& history = measured_.history();
  const std::vector<RollUpHistory::Point> own = history.Read(history.epoch(), rank);
  const std::vector<RollUpHistory::Point> all = history.Read(history.epoch(), RollUpHistory::kWholeJob);
  const double count = static_cast<double>(rows_.size());
  std::vector<int64_t> numbers;
  std::vector<ShareOver> gaps;
  size_t at = 0;
  for (const RollUpHistory::Point& point : own) {
    while (at < all.size() && all[at].number < point.number) ++at;
    if (at == all.size()) break;
    if (all[at].number != point.number) continue;
    const double mean = (all[at].value.waited * count - point.value.waited) / (count - 1);
    numbers.push_back(point.number);
    gaps.push_back({(mean - point.value.waited) / 1000, absl::ToDoubleSeconds(point.width)});
  }
  if (numbers.empty()) return std::nullopt;
  return history.TimeOf(numbers[ChangePoint(gaps, 1, kLeastRise)]);
}

}  // namespace farandole
