#include "server/edge/routes/history_query.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/diagnosis/roll_up_history.h"
#include "web/form_text.h"

namespace farandole {
namespace {

// As Member.host_id's.
constexpr size_t kMostHostBytes = 128;

struct Range {
  absl::string_view name;
  absl::Duration latest;
};
// As web/app/src/charts.tsx has them.
constexpr Range kRanges[] = {{"10m", absl::Minutes(10)},    {"1h", absl::Hours(1)},
                             {"6h", absl::Hours(6)},        {"3d", absl::Hours(72)},
                             {"30d", absl::Hours(30 * 24)}, {"all", absl::InfiniteDuration()}};

absl::Status Wrong(absl::string_view field, const std::string& value, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(field, "=", value, " is not ", allowed));
}

}  // namespace

absl::StatusOr<std::optional<HistoryAsked>> HistoryIn(absl::string_view query) {
  const std::string rank = QueryValue(query, "rank");
  const std::string epoch = QueryValue(query, "epoch");
  const std::string range = QueryValue(query, "range");
  HistoryAsked asked;
  asked.host_id = QueryValue(query, "host");
  if (rank.empty() && asked.host_id.empty()) return std::nullopt;
  if (!rank.empty() && !asked.host_id.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("rank=", rank, " and host=", asked.host_id, " ask for two histories; only one may be there"));
  if (asked.host_id.size() > kMostHostBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("host= has ", asked.host_id.size(), " bytes; a host's id has at most ", kMostHostBytes));
  if (rank == "all") {
    asked.rank = RollUpHistory::kWholeJob;
  } else if (!rank.empty() && (!absl::SimpleAtoi(rank, &asked.rank) || asked.rank == RollUpHistory::kWholeJob)) {
    return Wrong("rank", rank, "a rank's number, or all");
  }
  // Another epoch would be another question, with the same answer.
  if (!epoch.empty() && rank.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("epoch=", epoch, " goes with rank= only; host=", asked.host_id, " is one of the last epoch"));
  if (!epoch.empty() && !absl::SimpleAtoi(epoch, &asked.epoch)) return Wrong("epoch", epoch, "an epoch's number");
  if (range.empty()) return asked;
  const auto* const found =
      std::find_if(std::begin(kRanges), std::end(kRanges), [&](const Range& one) { return one.name == range; });
  if (found == std::end(kRanges)) return Wrong("range", range, "10m, 1h, 6h, 3d, 30d or all");
  asked.latest = found->latest;
  return asked;
}

}  // namespace farandole
