#include "web/files/collectives_json.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/op_text.h"
#include "base/text/rank_text.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

double Milliseconds(double micros) { return micros / 1000; }

Json CostJson(const v1::CollectiveCost& cost) {
  Json json{{"name", cost.name()},
            {"op", ShowOp(cost.op())},
            {"group", cost.group()},
            {"is_on_gpu", cost.is_on_gpu()},
            {"count", cost.count()},
            {"bytes", cost.bytes()},
            {"waited_ms", Milliseconds(static_cast<double>(cost.waited_us()))},
            {"wait_percent", cost.wait_percent()},
            {"mean_wait_ms", Milliseconds(cost.mean_wait_us())},
            {"longest_wait_ms", Milliseconds(static_cast<double>(cost.longest_wait_us()))},
            {"longest_wait_rank", cost.longest_wait_rank()},
            {"moving_ms", Milliseconds(static_cast<double>(cost.moving_us()))},
            {"mean_moving_ms", Milliseconds(cost.mean_moving_us())},
            {"algorithm_bytes_per_second", cost.algorithm_bytes_per_second()},
            {"bus_bytes_per_second", cost.bus_bytes_per_second()},
            {"compared", cost.compared()},
            {"last", Json::array()},
            {"least_wait_rank", cost.least_wait_rank()},
            {"least_wait_ms", Milliseconds(cost.least_wait_us())}};
  for (const v1::LastArrival& last : cost.last())
    json["last"].push_back({{"rank", last.rank()}, {"times", last.times()}});
  return json;
}

}  // namespace

Json CollectivesJson(const v1::SurveyCollectivesResponse& answer) {
  Json json{{"state", answer.is_over() ? "kept" : "asked"},
            {"epoch", answer.epoch()},
            {"size", answer.size()},
            {"answered", answer.answered()},
            {"asked_unix_ms", answer.asked_unix_ms()},
            {"found", answer.found()},
            {"left_out", answer.left_out()},
            {"waited_ms", Milliseconds(static_cast<double>(answer.waited_us()))},
            {"moving_ms", Milliseconds(static_cast<double>(answer.moving_us()))},
            {"collectives", Json::array()},
            {"silent", Json::array()}};
  for (const v1::CollectiveCost& cost : answer.costs()) json["collectives"].push_back(CostJson(cost));
  std::map<std::string, std::vector<uint32_t>> by_reason;
  for (const v1::RankEvidence& rank : answer.silent()) by_reason[rank.silence()].push_back(rank.rank());
  for (const auto& [why, ranks] : by_reason) json["silent"].push_back({{"ranks", ShowRanks(ranks)}, {"why", why}});
  return json;
}

}  // namespace farandole
