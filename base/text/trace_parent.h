#ifndef FARANDOLE_BASE_TEXT_TRACE_PARENT_H_
#define FARANDOLE_BASE_TEXT_TRACE_PARENT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

// A span of another program, as W3C's Trace Context names it.
struct TraceParent {
  // 16 and 8 bytes, binary.
  std::string trace_id;
  std::string span_id;
  // Its program records the trace.
  bool is_sampled = false;
};

// Reads "00-TRACE_ID-SPAN_ID-FLAGS", also of later versions (https://www.w3.org/TR/trace-context/#traceparent-header).
// nullopt: it is none.
std::optional<TraceParent> ParseTraceParent(absl::string_view text);

}  // namespace farandole

#endif  // FARANDOLE_BASE_TEXT_TRACE_PARENT_H_
