#include "server/spans/otlp_variables.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/text/percent_text.h"
#include "base/tls/certificate_reader.h"
#include "base/version.h"
#include "checkpoint/durable_file.h"
#include "server/identity/https_client.h"

namespace farandole {
namespace {

using Variables = std::function<std::string(const char*)>;

constexpr char kPath[] = "/v1/traces";
constexpr size_t kMostPemBytes = 1 << 20;
constexpr int64_t kMostTimeoutMs = 600'000;

// A variable of the exporter: of traces, or else of all signals.
struct Found {
  std::string name;
  std::string value;
};

Found Find(const Variables& variable, const std::string& what) {
  const std::string own = absl::StrCat("OTEL_EXPORTER_OTLP_TRACES_", what);
  if (std::string value = variable(own.c_str()); !value.empty()) return {own, std::move(value)};
  const std::string common = absl::StrCat("OTEL_EXPORTER_OTLP_", what);
  return {common, variable(common.c_str())};
}

absl::Status Wrong(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", what));
}

absl::StatusOr<std::string> CheckedUrl(absl::string_view name, const std::string& url) {
  const absl::StatusOr<HttpsUrl> parsed = ParseHttpUrl(url);
  if (!parsed.ok()) return Wrong(name, parsed.status().message());
  return url;
}

// To which the path of traces is added.
absl::StatusOr<std::string> BaseUrl(absl::string_view name, const std::string& base) {
  if (absl::StrContains(base, '?'))
    return Wrong(name, absl::StrCat("\"", ShownUrl(base), "\" has a query, and is to have none"));
  return CheckedUrl(name, absl::StrCat(absl::StripSuffix(base, "/"), kPath));
}

absl::StatusOr<std::string> UrlOf(const std::string& endpoint, const Variables& variable) {
  if (!endpoint.empty()) return BaseUrl("--otlp-endpoint", endpoint);
  if (absl::EqualsIgnoreCase(variable("OTEL_SDK_DISABLED"), "true")) return std::string();
  if (variable("OTEL_TRACES_EXPORTER") == "none") return std::string();
  const Found found = Find(variable, "ENDPOINT");
  if (found.value.empty()) return std::string();
  const Found protocol = Find(variable, "PROTOCOL");
  if (protocol.value == "grpc")
    return Wrong(protocol.name, "\"grpc\" is not spoken; give the collector's port for HTTP (4318) by --otlp-endpoint");
  return found.name == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" ? CheckedUrl(found.name, found.value)
                                                            : BaseUrl(found.name, found.value);
}

// "NAME=VALUE,NAME=VALUE", the values encoded as in a URL. Values may be secrets: they are in no message.
absl::StatusOr<OtlpOptions::Pairs> ReadPairs(const std::string& name, const std::string& text) {
  OtlpOptions::Pairs pairs;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (absl::StripAsciiWhitespace(part).empty()) continue;
    const std::vector<absl::string_view> sides = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::string key(absl::StripAsciiWhitespace(sides[0]));
    const bool is_token = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
      return absl::ascii_isgraph(c) && !absl::StrContains("()<>@,;:\\\"/[]?={}", static_cast<char>(c));
    });
    if (sides.size() < 2 || !is_token) return Wrong(name, absl::StrCat("part ", pairs.size() + 1, " is no NAME=VALUE"));
    const std::optional<std::string> value = PercentDecode(absl::StripAsciiWhitespace(sides[1]));
    if (!value.has_value()) return Wrong(name, absl::StrCat("the value of ", key, " has a % that begins no escape"));
    if (std::any_of(value->begin(), value->end(), [](unsigned char c) { return absl::ascii_iscntrl(c); }))
      return Wrong(name, absl::StrCat("the value of ", key, " has a control character"));
    pairs.emplace_back(key, *value);
  }
  return pairs;
}

// The service's name goes before the attributes that are given.
absl::StatusOr<OtlpOptions::Pairs> ReadResource(const Variables& variable) {
  absl::StatusOr<OtlpOptions::Pairs> given =
      ReadPairs("OTEL_RESOURCE_ATTRIBUTES", variable("OTEL_RESOURCE_ATTRIBUTES"));
  if (!given.ok()) return given.status();
  const std::string named = variable("OTEL_SERVICE_NAME");
  std::string service = named.empty() ? "farandole" : named;
  OtlpOptions::Pairs resource;
  for (auto& [key, value] : *given) {
    if (key != "service.name") {
      resource.emplace_back(key, value);
    } else if (named.empty()) {
      service = value;
    }
  }
  resource.emplace_back("service.name", service);
  const auto is_version = [](const auto& pair) { return pair.first == "service.version"; };
  if (std::none_of(resource.begin(), resource.end(), is_version)) resource.emplace_back("service.version", kVersion);
  return resource;
}

}  // namespace

absl::StatusOr<OtlpOptions> ReadOtlpOptions(const std::string& endpoint, const Variables& variable) {
  OtlpOptions options;
  absl::StatusOr<std::string> url = UrlOf(endpoint, variable);
  if (!url.ok()) return url.status();
  options.url = *std::move(url);
  if (options.url.empty()) return options;
  const Found headers = Find(variable, "HEADERS");
  absl::StatusOr<OtlpOptions::Pairs> pairs = ReadPairs(headers.name, headers.value);
  if (!pairs.ok()) return pairs.status();
  options.headers = *std::move(pairs);
  const Found timeout = Find(variable, "TIMEOUT");
  int64_t timeout_ms = 0;
  if (!timeout.value.empty()) {
    if (!absl::SimpleAtoi(timeout.value, &timeout_ms) || timeout_ms < 1 || timeout_ms > kMostTimeoutMs)
      return Wrong(timeout.name, absl::StrCat("\"", timeout.value, "\" is no number of ms from 1 to ", kMostTimeoutMs));
    options.timeout = absl::Milliseconds(timeout_ms);
  }
  const Found ca = Find(variable, "CERTIFICATE");
  if (!ca.value.empty()) {
    absl::StatusOr<std::string> pem = ReadSmallFile(ca.value, kMostPemBytes);
    if (!pem.ok()) return absl::Status(pem.status().code(), absl::StrCat(ca.name, ": ", pem.status().message()));
    const absl::StatusOr<CertificateFacts> facts = ReadCertificate(*pem);
    if (!facts.ok()) return Wrong(ca.name, absl::StrCat(ca.value, ": ", facts.status().message()));
    options.ca_pem = *std::move(pem);
  }
  absl::StatusOr<OtlpOptions::Pairs> resource = ReadResource(variable);
  if (!resource.ok()) return resource.status();
  options.resource = *std::move(resource);
  return options;
}

}  // namespace farandole
