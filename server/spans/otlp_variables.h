#ifndef FARANDOLE_SERVER_SPANS_OTLP_VARIABLES_H_
#define FARANDOLE_SERVER_SPANS_OTLP_VARIABLES_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "server/spans/otlp_options.h"

namespace farandole {

// Reads where spans go: to `endpoint`/v1/traces, or, if that is "", where OpenTelemetry's variables say, if they do.
// Headers, certificates, timeout and the resource are always those of these variables, which `variable` returns by name
// ("": not set): OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _CERTIFICATE, _TIMEOUT and _PROTOCOL, each also as
// OTEL_EXPORTER_OTLP_TRACES_..., which goes first; OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_SDK_DISABLED and
// OTEL_TRACES_EXPORTER.
//   INVALID_ARGUMENT  a value is wrong (its name is in the message, the value of headers is not), or a variable asks
//                     for a protocol that is not spoken
//   others            the file of the certificates cannot be read (named)
absl::StatusOr<OtlpOptions> ReadOtlpOptions(const std::string& endpoint,
                                            const std::function<std::string(const char*)>& variable);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_SPANS_OTLP_VARIABLES_H_
