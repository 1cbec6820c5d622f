#ifndef FARANDOLE_SERVER_JOB_SPANS_SPAN_H_
#define FARANDOLE_SERVER_JOB_SPANS_SPAN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"

namespace farandole {

using SpanValue = std::variant<std::string, int64_t, bool, std::vector<int64_t>, std::vector<std::string>>;

// One pair of a span's or an event's attributes.
struct SpanAttribute {
  SpanAttribute(std::string attribute_key, SpanValue attribute_value)
      : key(std::move(attribute_key)), value(std::move(attribute_value)) {}

  std::string key;
  SpanValue value;
};

// Something that happened at one moment of a span.
struct SpanEvent {
  std::string name;
  absl::Time at;
  std::vector<SpanAttribute> attributes;
};

// A span that has ended, as OpenTelemetry's data model has it. Times are of the wall clock.
struct Span {
  // 16, 8 and 8 bytes; no parent: "".
  std::string trace_id;
  std::string id;
  std::string parent_id;
  std::string name;
  absl::Time began;
  // Not before `began`.
  absl::Time ended;
  std::vector<SpanAttribute> attributes;
  std::vector<SpanEvent> events;
  // Events that were left out because there were too many.
  uint32_t dropped_events = 0;
  bool is_error = false;
  // Of an error: why; "": it is not known.
  std::string error;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_SPANS_SPAN_H_
