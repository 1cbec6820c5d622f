#include "web/files/evidence_text.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/op_text.h"
#include "base/text/rank_text.h"
#include "base/text/shown_text.h"
#include "google/protobuf/util/json_util.h"

namespace farandole {
namespace {

constexpr int kMostFrames = 20;
constexpr int kMostGroups = 8;

void AddWaits(const v1::DiagnoseResponse& answer, std::string* text) {
  if (answer.waits_size() == 0) return;
  absl::StrAppend(text, "\nwho waits for whom\n");
  for (const v1::FlightWait& wait : answer.waits()) {
    const std::string whom =
        wait.missing_size() > 0 ? ShowRanks(wait.missing(), kAllRuns) : std::string("nobody: all have submitted it");
    absl::StrAppend(text, "  ", ShowRanks(wait.waiting(), kAllRuns), " --- ", ShowOp(wait.op()), " '",
                    WithoutControls(wait.name()), "'",
                    wait.group() == 0 ? "" : absl::StrCat(" of process set ", wait.group()),
                    absl::StrFormat(", %.1f s", static_cast<double>(wait.waited_us()) / 1e6), " --> ", whom, "\n");
  }
}

void AddStacks(const v1::DiagnoseResponse& answer, std::string* text) {
  std::map<uint32_t, std::string> about;
  for (const v1::RankEvidence& rank : answer.ranks()) about[rank.rank()] = rank.evidence().about_stacks();
  int groups = 0;
  for (const v1::StackGroup& group : answer.stacks()) {
    if (++groups > kMostGroups) break;
    absl::StrAppend(text, "\nstack of ", ShowRanks(group.ranks(), kAllRuns), group.is_dominant() ? " (most)" : "", ", ",
                    WithoutControls(about[group.ranks(0)]), "\n");
    for (int at = 0; at < group.frames_size() && at < kMostFrames; ++at) {
      const v1::StackFrame& frame = group.frames(at);
      absl::StrAppend(text, "  ", WithoutControls(frame.function()), " (", WithoutControls(frame.file()), ":",
                      frame.line(), ")\n");
    }
    if (group.frames_size() > kMostFrames)
      absl::StrAppend(text, "  and ", group.frames_size() - kMostFrames, " frames more\n");
  }
  if (answer.stacks_size() > kMostGroups)
    absl::StrAppend(text, "\n", answer.stacks_size() - kMostGroups, " groups of stacks more are in --json\n");
}

void AddUnknown(const v1::DiagnoseResponse& answer, std::string* text) {
  std::map<std::string, std::vector<uint32_t>> by_reason;
  for (const v1::RankEvidence& rank : answer.ranks()) {
    if (!rank.silence().empty()) {
      by_reason[rank.silence()].push_back(rank.rank());
    } else if (rank.evidence().threads_size() == 0 && !rank.evidence().about_stacks().empty()) {
      by_reason[absl::StrCat("no stacks: ", rank.evidence().about_stacks())].push_back(rank.rank());
    }
  }
  if (!by_reason.empty()) absl::StrAppend(text, "\n");
  for (const auto& [reason, ranks] : by_reason)
    absl::StrAppend(text, ShowRanks(ranks, kAllRuns), ": ", WithoutControls(reason), "\n");
}

}  // namespace

std::string ShowEvidence(const v1::DiagnoseResponse& answer) {
  std::string text = absl::StrCat("epoch ", answer.epoch(), ", ", answer.size(),
                                  answer.size() == 1 ? " rank" : " ranks", ", ", answer.ranks_size(), " asked\n");
  if (answer.stalled_unix_ms() != 0) {
    absl::StrAppend(&text, "stacks as the coordinator read them when the job stalled, ",
                    ShowTime(absl::FromUnixMillis(answer.stalled_unix_ms())), "\n");
  }
  absl::StrAppend(
      &text,
      answer.sentence().empty() ? "no rank waits for another in a collective" : WithoutControls(answer.sentence()),
      "\n");
  AddWaits(answer, &text);
  AddStacks(answer, &text);
  AddUnknown(answer, &text);
  return text;
}

std::string EvidenceJson(const google::protobuf::Message& answer) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(answer, &json, options);
  return status.ok() ? json : "{}";
}

}  // namespace farandole
