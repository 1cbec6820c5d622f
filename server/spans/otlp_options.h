#ifndef FARANDOLE_SERVER_SPANS_OTLP_OPTIONS_H_
#define FARANDOLE_SERVER_SPANS_OTLP_OPTIONS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace farandole {

// Where spans go, and how: OTLP over HTTP, in JSON.
struct OtlpOptions {
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  // To which they are posted, with its path: "https://collector:4318/v1/traces"; "": no spans are made.
  std::string url;
  // Headers of each request, besides those of HTTP: for the collector's credentials.
  Pairs headers;
  // Certificates, PEM, that the collector's descends from; "": those of the system.
  std::string ca_pem;
  // For one request, from the collector's name to the reply's end.
  absl::Duration timeout = absl::Seconds(10);
  // The attributes of the resource that the spans are of: "service.name".
  Pairs resource;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_SPANS_OTLP_OPTIONS_H_
