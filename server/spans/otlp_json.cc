#include "server/spans/otlp_json.h"

#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

using Json = nlohmann::json;

// Span.SpanKind and Status.StatusCode of trace.proto.
constexpr int kInternal = 1;
constexpr int kError = 2;
constexpr size_t kMostMessage = 512;

struct ValueJson {
  Json operator()(const std::string& text) const { return {{"stringValue", text}}; }
  Json operator()(int64_t number) const { return {{"intValue", absl::StrCat(number)}}; }
  Json operator()(bool is_so) const { return {{"boolValue", is_so}}; }
  template <typename T>
  Json operator()(const std::vector<T>& list) const {
    Json values = Json::array();
    for (const T& value : list) values.push_back((*this)(value));
    return {{"arrayValue", {{"values", std::move(values)}}}};
  }
};

Json AttributeJson(const std::string& key, const SpanValue& value) {
  return {{"key", key}, {"value", std::visit(ValueJson(), value)}};
}

Json AttributesJson(const std::vector<SpanAttribute>& attributes) {
  Json list = Json::array();
  for (const SpanAttribute& attribute : attributes) list.push_back(AttributeJson(attribute.key, attribute.value));
  return list;
}

std::string NanosText(absl::Time time) { return absl::StrCat(absl::ToUnixNanos(time)); }

Json SpanJson(const Span& span) {
  Json json = {{"traceId", absl::BytesToHexString(span.trace_id)},
               {"spanId", absl::BytesToHexString(span.id)},
               {"name", span.name},
               {"kind", kInternal},
               {"startTimeUnixNano", NanosText(span.began)},
               {"endTimeUnixNano", NanosText(span.ended)},
               {"attributes", AttributesJson(span.attributes)}};
  if (!span.parent_id.empty()) json["parentSpanId"] = absl::BytesToHexString(span.parent_id);
  for (const SpanEvent& event : span.events) {
    json["events"].push_back({{"timeUnixNano", NanosText(event.at)},
                              {"name", event.name},
                              {"attributes", AttributesJson(event.attributes)}});
  }
  if (span.dropped_events > 0) json["droppedEventsCount"] = span.dropped_events;
  if (span.is_error) json["status"] = {{"code", kError}, {"message", span.error}};
  return json;
}

struct ValueBytes {
  size_t operator()(const std::string& text) const { return text.size(); }
  size_t operator()(int64_t) const { return 0; }
  size_t operator()(bool) const { return 0; }
  template <typename T>
  size_t operator()(const std::vector<T>& list) const {
    size_t bytes = list.size() * sizeof(T);
    for (const T& value : list) bytes += (*this)(value);
    return bytes;
  }
};

size_t BytesOf(const std::vector<SpanAttribute>& attributes) {
  size_t bytes = attributes.size() * sizeof(SpanAttribute);
  for (const SpanAttribute& attribute : attributes)
    bytes += attribute.key.size() + std::visit(ValueBytes(), attribute.value);
  return bytes;
}

}  // namespace

std::string ToOtlpJson(const OtlpOptions::Pairs& resource, absl::Span<const Span> spans) {
  Json attributes = Json::array();
  for (const auto& [key, value] : resource) attributes.push_back(AttributeJson(key, value));
  Json list = Json::array();
  for (const Span& span : spans) list.push_back(SpanJson(span));
  Json scope = {{"scope", {{"name", "farandole"}, {"version", kVersion}}}, {"spans", std::move(list)}};
  Json of_resource = {{"resource", {{"attributes", std::move(attributes)}}}};
  of_resource["scopeSpans"].push_back(std::move(scope));
  Json request;
  request["resourceSpans"].push_back(std::move(of_resource));
  return request.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

PartialSuccess ReadPartialSuccess(absl::string_view body) {
  PartialSuccess result;
  const Json reply = Json::parse(body.begin(), body.end(), nullptr, /*allow_exceptions=*/false);
  if (!reply.is_object() || !reply.contains("partialSuccess") || !reply["partialSuccess"].is_object()) return result;
  const Json& partial = reply["partialSuccess"];
  const Json rejected = partial.value("rejectedSpans", Json());
  if (rejected.is_number_integer()) result.rejected = rejected.get<int64_t>();
  if (rejected.is_string() && !absl::SimpleAtoi(rejected.get<std::string>(), &result.rejected)) result.rejected = 0;
  if (result.rejected < 0) result.rejected = 0;
  const Json message = partial.value("errorMessage", Json());
  if (message.is_string()) result.message = message.get<std::string>().substr(0, kMostMessage);
  return result;
}

size_t BytesOf(const Span& span) {
  size_t bytes = sizeof(Span) + span.trace_id.size() + span.id.size() + span.parent_id.size() + span.name.size() +
                 span.error.size() + BytesOf(span.attributes);
  for (const SpanEvent& event : span.events) bytes += sizeof(SpanEvent) + event.name.size() + BytesOf(event.attributes);
  return bytes;
}

}  // namespace farandole
