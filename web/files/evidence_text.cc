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
// Beside frames of Python.
constexpr int kMostNativeFrames = 12;
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

using Frames = google::protobuf::RepeatedPtrField<v1::StackFrame>;

void AddFrames(const Frames& frames, int most, const char* kind, std::string* text) {
  for (int at = 0; at < frames.size() && at < most; ++at) {
    const v1::StackFrame& frame = frames[at];
    const std::string place = frame.file().empty() ? frame.module() : absl::StrCat(frame.file(), ":", frame.line());
    absl::StrAppend(text, "  ", WithoutControls(frame.function()));
    if (!place.empty()) absl::StrAppend(text, " (", WithoutControls(place), ")");
    absl::StrAppend(text, "\n");
  }
  if (frames.size() > most) absl::StrAppend(text, "  and ", frames.size() - most, " ", kind, " more\n");
}

void AddStacks(const v1::DiagnoseResponse& answer, std::string* text) {
  std::map<uint32_t, const v1::Evidence*> by_rank;
  for (const v1::RankEvidence& rank : answer.ranks()) by_rank[rank.rank()] = &rank.evidence();
  int groups = 0;
  for (const v1::StackGroup& group : answer.stacks()) {
    if (++groups > kMostGroups) break;
    const auto found = by_rank.find(group.ranks(0));
    const v1::Evidence& first = found != by_rank.end() ? *found->second : v1::Evidence::default_instance();
    const bool is_native = group.frames_size() == 0;
    absl::StrAppend(text, "\nstack of ", ShowRanks(group.ranks(), kAllRuns), group.is_dominant() ? " (most)" : "", ", ",
                    WithoutControls(is_native ? first.about_native_stacks() : first.about_stacks()), "\n");
    if (first.threads_size() > 0 && !first.threads(0).why_no_native().empty())
      absl::StrAppend(text, "  compiled code: ", WithoutControls(first.threads(0).why_no_native()), "\n");
    // The innermost calls are those of compiled code.
    AddFrames(group.native_frames(), is_native ? kMostFrames : kMostNativeFrames, "native frames", text);
    AddFrames(group.frames(), kMostFrames, "frames", text);
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
    const std::string why = WhyNoNative(rank.evidence());
    if (!why.empty()) by_reason[absl::StrCat("no native stacks: ", why)].push_back(rank.rank());
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

std::string WhyNoNative(const v1::Evidence& evidence) {
  for (const v1::ThreadStack& thread : evidence.threads()) {
    if (thread.native_frames_size() > 0 || !thread.why_no_native().empty()) return "";
  }
  return evidence.about_native_stacks();
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
