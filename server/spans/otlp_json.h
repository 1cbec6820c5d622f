#ifndef FARANDOLE_SERVER_SPANS_OTLP_JSON_H_
#define FARANDOLE_SERVER_SPANS_OTLP_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/job/spans/span.h"
#include "server/spans/otlp_options.h"

namespace farandole {

// An ExportTraceServiceRequest of OTLP 1, in its JSON encoding
// (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding): ids in hexadecimal digits, 64-bit numbers as
// text. Bytes that are no UTF-8 are replaced.
std::string ToOtlpJson(const OtlpOptions::Pairs& resource, absl::Span<const Span> spans);

// The part of a collector's reply with status 200 about spans that it has not taken.
struct PartialSuccess {
  int64_t rejected = 0;
  // Its words for it, or a warning; "": none.
  std::string message;
};
// Reads the body of an answer. One that is no ExportTraceServiceResponse in JSON says that nothing was rejected.
PartialSuccess ReadPartialSuccess(absl::string_view body);

// About how many bytes the span takes in memory.
size_t BytesOf(const Span& span);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_SPANS_OTLP_JSON_H_
