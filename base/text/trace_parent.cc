#include "base/text/trace_parent.h"

#include <algorithm>

#include "absl/strings/escaping.h"

namespace farandole {
namespace {

constexpr size_t kTraceIdAt = 3;
constexpr size_t kSpanIdAt = 36;
constexpr size_t kFlagsAt = 53;
constexpr size_t kBytes = 55;
// Of a later version.
constexpr size_t kMostBytes = 128;

bool IsHex(absl::string_view digits) {
  return std::all_of(digits.begin(), digits.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsZero(absl::string_view digits) { return digits.find_first_not_of('0') == absl::string_view::npos; }

}  // namespace

std::optional<TraceParent> ParseTraceParent(absl::string_view text) {
  if (text.size() < kBytes || text.size() > kMostBytes || text[2] != '-' || text[kSpanIdAt - 1] != '-' ||
      text[kFlagsAt - 1] != '-')
    return std::nullopt;
  const absl::string_view version = text.substr(0, 2);
  const absl::string_view trace_id = text.substr(kTraceIdAt, 32);
  const absl::string_view span_id = text.substr(kSpanIdAt, 16);
  const absl::string_view flags = text.substr(kFlagsAt, 2);
  if (!IsHex(version) || version == "ff" || !IsHex(trace_id) || !IsHex(span_id) || !IsHex(flags)) return std::nullopt;
  if (IsZero(trace_id) || IsZero(span_id)) return std::nullopt;
  // A later version may go on behind another dash.
  if (text.size() > kBytes && (version == "00" || text[kBytes] != '-')) return std::nullopt;
  const bool is_sampled = (absl::HexStringToBytes(flags)[0] & 1) != 0;
  return TraceParent{absl::HexStringToBytes(trace_id), absl::HexStringToBytes(span_id), is_sampled};
}

}  // namespace farandole
