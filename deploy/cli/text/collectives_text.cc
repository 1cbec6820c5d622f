#include "deploy/cli/text/collectives_text.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/op_text.h"
#include "base/text/rank_text.h"
#include "deploy/cli/text/text_table.h"

namespace farandole {
namespace {

double KeyOf(const v1::CollectiveCost& cost, CollectiveOrder order) {
  switch (order) {
    case CollectiveOrder::kCost:
      return static_cast<double>(cost.waited_us() + cost.moving_us());
    case CollectiveOrder::kWait:
      return static_cast<double>(cost.waited_us());
    case CollectiveOrder::kMoving:
      return static_cast<double>(cost.moving_us());
    case CollectiveOrder::kBandwidth:
      return cost.bus_bytes_per_second();
    case CollectiveOrder::kBytes:
      return static_cast<double>(cost.bytes());
    case CollectiveOrder::kCount:
      return static_cast<double>(cost.count());
  }
  return 0;
}

// "12.3 ms", "4.5 s".
std::string ShowMicros(double micros) {
  if (micros < 1e3) return absl::StrFormat("%.0f us", micros);
  return micros < 1e6 ? absl::StrFormat("%.1f ms", micros / 1e3) : absl::StrFormat("%.1f s", micros / 1e6);
}

std::string ShowRate(double bytes_per_second) {
  if (bytes_per_second <= 0) return "-";
  return absl::StrCat(ShowSize(static_cast<uint64_t>(bytes_per_second)), "/s");
}

// "rank 2, 61 of 64".
std::string ShowLast(const v1::CollectiveCost& cost, bool is_whole) {
  if (cost.last_size() > 0)
    return absl::StrCat("rank ", cost.last(0).rank(), ", ", cost.last(0).times(), " of ", cost.compared());
  if (cost.compared() == 0) return "-";
  return is_whole ? "together" : "none that answered";
}

std::string ShowName(const v1::CollectiveCost& cost) {
  return absl::StrCat(cost.name(), cost.group() == 0 ? "" : absl::StrCat(" (process set ", cost.group(), ")"));
}

void AddHead(const v1::SurveyCollectivesResponse& answer, std::ostream& out) {
  out << "epoch " << answer.epoch() << ", " << answer.answered() << " of " << answer.size()
      << (answer.size() == 1 ? " rank has" : " ranks have") << " answered";
  if (answer.asked_unix_ms() == 0) {
    out << ", as their launchers read it when they ended";
  } else {
    out << (answer.is_over() ? ", last " : ", ") << ShowTime(absl::FromUnixMillis(answer.asked_unix_ms()));
  }
  out << "\n"
      << answer.found() << (answer.found() == 1 ? " name" : " names") << "; all ranks together waited "
      << ShowMicros(static_cast<double>(answer.waited_us())) << " for others, and "
      << ShowMicros(static_cast<double>(answer.moving_us())) << " for data\n";
  if (answer.left_out() > 0) out << "ranks have " << answer.left_out() << " names more, which took less time\n";
}

}  // namespace

std::string ShowCollectives(const v1::SurveyCollectivesResponse& answer, CollectiveOrder order) {
  std::ostringstream out;
  AddHead(answer, out);
  std::vector<const v1::CollectiveCost*> costs;
  for (const v1::CollectiveCost& cost : answer.costs()) costs.push_back(&cost);
  absl::c_stable_sort(costs, [order](const v1::CollectiveCost* a, const v1::CollectiveCost* b) {
    return KeyOf(*a, order) > KeyOf(*b, order);
  });
  std::vector<std::vector<std::string>> rows;
  for (const v1::CollectiveCost* cost : costs) {
    const double rate = cost->bus_bytes_per_second();
    rows.push_back({absl::StrFormat("%.0f %%", cost->wait_percent()), ShowMicros(cost->mean_wait_us()),
                    ShowMicros(static_cast<double>(cost->longest_wait_us())),
                    cost->mean_moving_us() > 0 ? ShowMicros(cost->mean_moving_us()) : "-",
                    ShowRate(cost->algorithm_bytes_per_second()), ShowRate(rate), absl::StrCat(cost->count()),
                    ShowSize(cost->bytes()), ShowLast(*cost, answer.answered() == answer.size()), ShowOp(cost->op()),
                    ShowName(*cost)});
  }
  if (!rows.empty()) {
    out << "\n";
    PrintTable({{"OF WAITS", true},
                {"WAIT", true},
                {"LONGEST", true},
                {"DATA", true},
                {"ALGBW", true},
                {"BUSBW", true},
                {"COUNT", true},
                {"SIZE", true},
                {"LAST"},
                {"OP"},
                {"NAME"}},
               rows, out);
  }
  std::map<std::string, std::vector<uint32_t>> silent;
  for (const v1::RankEvidence& rank : answer.silent()) silent[rank.silence()].push_back(rank.rank());
  if (!silent.empty()) out << "\n";
  for (const auto& [why, ranks] : silent) out << ShowRanks(ranks, kAllRuns) << ": " << WithoutControls(why) << "\n";
  return out.str();
}

}  // namespace farandole
