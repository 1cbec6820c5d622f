#include "web/files/hang_json.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/op_text.h"
#include "base/text/rank_text.h"
#include "nlohmann/json.hpp"
#include "web/files/evidence_text.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRecorders = 8;
constexpr int kMostRecords = 32;
constexpr int kMostThreads = 32;
constexpr int kMostGroups = 16;
constexpr int kMostFrames = 40;
// Of a group of ranks in words; the archive has all.
constexpr size_t kMostRuns = 8;

template <typename Ranks>
Json RanksJson(const Ranks& ranks) {
  return {
      {"text", ShowRanks(ranks, kMostRuns)}, {"count", ranks.size()}, {"first", ranks.empty() ? 0 : *ranks.begin()}};
}

double Milliseconds(uint64_t micros) { return static_cast<double>(micros) / 1000; }

Json WaitsJson(const v1::DiagnoseResponse& answer) {
  Json json = Json::array();
  for (const v1::FlightWait& wait : answer.waits()) {
    json.push_back({{"name", wait.name()},
                    {"op", ShowOp(wait.op())},
                    {"group", wait.group()},
                    {"waited_ms", Milliseconds(wait.waited_us())},
                    {"waiting", RanksJson(wait.waiting())},
                    {"missing", RanksJson(wait.missing())}});
  }
  return json;
}

Json FramesJson(const google::protobuf::RepeatedPtrField<v1::StackFrame>& frames) {
  Json json = Json::array();
  for (int at = 0; at < std::min(frames.size(), kMostFrames); ++at) {
    const v1::StackFrame& frame = frames[at];
    json.push_back({{"function", frame.function()}, {"file", frame.file()}, {"line", frame.line()}});
    if (!frame.module().empty()) json.back()["module"] = frame.module();
  }
  return json;
}

Json StacksJson(const v1::DiagnoseResponse& answer) {
  std::map<uint32_t, const v1::Evidence*> by_rank;
  for (const v1::RankEvidence& rank : answer.ranks()) by_rank[rank.rank()] = &rank.evidence();
  Json json = Json::array();
  for (int i = 0; i < std::min(answer.stacks_size(), kMostGroups); ++i) {
    const v1::StackGroup& group = answer.stacks(i);
    const auto found = by_rank.find(group.ranks_size() > 0 ? group.ranks(0) : 0);
    const v1::Evidence& first = found != by_rank.end() ? *found->second : v1::Evidence::default_instance();
    json.push_back({{"ranks", RanksJson(group.ranks())},
                    {"is_dominant", group.is_dominant()},
                    {"about", first.about_stacks()},
                    {"about_native", first.about_native_stacks()},
                    {"why_no_native", first.threads_size() > 0 ? first.threads(0).why_no_native() : ""},
                    {"native_frames", FramesJson(group.native_frames())},
                    {"more_native_frames", std::max(0, group.native_frames_size() - kMostFrames)},
                    {"frames", FramesJson(group.frames())},
                    {"more_frames", std::max(0, group.frames_size() - kMostFrames)}});
  }
  return json;
}

Json SilentJson(const v1::DiagnoseResponse& answer) {
  std::map<std::string, std::vector<uint32_t>> by_reason;
  for (const v1::RankEvidence& rank : answer.ranks()) {
    const v1::Evidence& evidence = rank.evidence();
    if (!rank.silence().empty()) {
      by_reason[rank.silence()].push_back(rank.rank());
    } else if (evidence.threads_size() == 0 && !evidence.about_stacks().empty()) {
      by_reason[absl::StrCat("no stacks: ", evidence.about_stacks())].push_back(rank.rank());
    }
    const std::string why = WhyNoNative(evidence);
    if (!why.empty()) by_reason[absl::StrCat("no native stacks: ", why)].push_back(rank.rank());
  }
  Json json = Json::array();
  for (const auto& [why, ranks] : by_reason) json.push_back({{"ranks", RanksJson(ranks)}, {"why", why}});
  return json;
}

// Those that others wait for, and of each wait the first that waits; where nobody waits, the first two. Where ranks
// wait for each other, the fewer come first: most ranks do the same, and the others are suspects.
std::vector<uint32_t> RanksThatMatter(const v1::DiagnoseResponse& answer, size_t* missing) {
  std::vector<uint32_t> ranks;
  const auto add = [&ranks](uint32_t rank) {
    if (ranks.size() < kMostRecorders && !absl::c_linear_search(ranks, rank)) ranks.push_back(rank);
  };
  std::vector<const v1::FlightWait*> waits;
  for (const v1::FlightWait& wait : answer.waits()) waits.push_back(&wait);
  absl::c_stable_sort(
      waits, [](const v1::FlightWait* a, const v1::FlightWait* b) { return a->missing_size() < b->missing_size(); });
  for (const v1::FlightWait* wait : waits) absl::c_for_each(wait->missing(), add);
  *missing = ranks.size();
  for (const v1::FlightWait* wait : waits) {
    if (wait->waiting_size() > 0) add(wait->waiting(0));
  }
  const int first = ranks.empty() ? std::min(answer.ranks_size(), 2) : 0;
  for (int i = 0; i < first; ++i) add(answer.ranks(i).rank());
  return ranks;
}

Json RecordsJson(const v1::FlightRecords& flight) {
  Json json = Json::array();
  for (int i = std::max(0, flight.records_size() - kMostRecords); i < flight.records_size(); ++i) {
    const v1::FlightRecord& record = flight.records(i);
    const bool is_known = record.name() < static_cast<uint32_t>(flight.names_size());
    json.push_back({{"name", is_known ? flight.names(static_cast<int>(record.name())) : ""},
                    {"op", ShowOp(record.op())},
                    {"state", absl::AsciiStrToLower(v1::FlightRecord::State_Name(record.state()))},
                    {"bytes", record.bytes()},
                    {"group", record.group()},
                    {"batch", record.batch()},
                    {"age_ms", Milliseconds(record.age_us())},
                    {"started_after_ms", Milliseconds(record.started_after_us())},
                    {"ended_after_ms", Milliseconds(record.ended_after_us())}});
  }
  return json;
}

Json RecorderJson(const v1::RankEvidence& rank, bool is_missing) {
  const v1::Evidence& evidence = rank.evidence();
  Json json{{"rank", rank.rank()},
            {"is_missing", is_missing},
            {"pid", evidence.flight().pid()},
            {"unrecorded", evidence.flight().unrecorded()},
            {"threads", Json::array()},
            {"records", RecordsJson(evidence.flight())}};
  for (int i = 0; i < std::min(evidence.kernel_threads_size(), kMostThreads); ++i) {
    const v1::KernelThread& thread = evidence.kernel_threads(i);
    json["threads"].push_back({{"name", thread.name()}, {"state", thread.state()}, {"call", thread.call()}});
  }
  return json;
}

Json RecordersJson(const v1::DiagnoseResponse& answer) {
  size_t missing = 0;
  const std::vector<uint32_t> ranks = RanksThatMatter(answer, &missing);
  Json json = Json::array();
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto found = absl::c_find_if(answer.ranks(), [&](const auto& one) { return one.rank() == ranks[i]; });
    if (found != answer.ranks().end() && found->has_evidence()) json.push_back(RecorderJson(*found, i < missing));
  }
  return json;
}

}  // namespace

Json HangJson(const v1::DiagnoseResponse& answer) {
  Json json{{"epoch", answer.epoch()}, {"size", answer.size()}};
  json["answered"] = absl::c_count_if(answer.ranks(), [](const auto& rank) { return rank.has_evidence(); });
  json["stalled_unix_ms"] = answer.stalled_unix_ms();
  json["sentence"] = answer.sentence();
  json["waits"] = WaitsJson(answer);
  json["stacks"] = StacksJson(answer);
  json["silent"] = SilentJson(answer);
  json["recorders"] = RecordersJson(answer);
  json["settings"] = Json::array();
  for (const v1::RankEvidence& rank : answer.ranks()) {
    for (const std::string& setting : rank.evidence().settings()) json["settings"].push_back(setting);
    if (rank.evidence().settings_size() > 0) break;
  }
  return json;
}

}  // namespace farandole
