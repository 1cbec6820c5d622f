#include "server/spans/span_queue.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/spans/otlp_json.h"
#include "server/spans/retry_after.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::json;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

Span Named(const std::string& name) {
  Span span;
  span.name = name;
  return span;
}

std::vector<std::string> Names(const std::vector<Span>& spans) {
  std::vector<std::string> names;
  for (const Span& span : spans) names.push_back(span.name);
  return names;
}

TEST(OtlpJsonTest, ASpanIsWrittenAsTheSpecificationSays) {
  Span span;
  span.trace_id = std::string("\x0a\xf7", 2) + std::string(14, '\x01');
  span.id = std::string(8, '\x02');
  span.parent_id = std::string(8, '\xff');
  span.name = "epoch";
  span.began = absl::FromUnixNanos(1'700'000'000'123'456'789);
  span.ended = span.began + absl::Nanoseconds(1);
  span.attributes = {{"a.text", std::string("x")},
                     {"a.number", int64_t{-9'007'199'254'740'993}},
                     {"a.truth", true},
                     {"a.list", std::vector<int64_t>{1, 2}},
                     {"a.names", std::vector<std::string>{"n"}}};
  span.events = {{"happened", span.began, {{"b", int64_t{1}}}}};
  span.dropped_events = 3;
  span.is_error = true;
  span.error = "lost";
  const Json json = Json::parse(ToOtlpJson({{"service.name", "farandole"}}, {span}));
  const Json& of_resource = json["resourceSpans"][0];
  EXPECT_EQ(of_resource["resource"]["attributes"],
            Json::parse(R"([{"key": "service.name", "value": {"stringValue": "farandole"}}])"));
  EXPECT_EQ(of_resource["scopeSpans"][0]["scope"]["name"], "farandole");
  EXPECT_EQ(of_resource["scopeSpans"][0]["spans"][0], Json::parse(R"({
    "traceId": "0af70101010101010101010101010101", "spanId": "0202020202020202", "parentSpanId": "ffffffffffffffff",
    "name": "epoch", "kind": 1,
    "startTimeUnixNano": "1700000000123456789", "endTimeUnixNano": "1700000000123456790",
    "attributes": [
      {"key": "a.text", "value": {"stringValue": "x"}},
      {"key": "a.number", "value": {"intValue": "-9007199254740993"}},
      {"key": "a.truth", "value": {"boolValue": true}},
      {"key": "a.list", "value": {"arrayValue": {"values": [{"intValue": "1"}, {"intValue": "2"}]}}},
      {"key": "a.names", "value": {"arrayValue": {"values": [{"stringValue": "n"}]}}}],
    "events": [{"timeUnixNano": "1700000000123456789", "name": "happened",
                "attributes": [{"key": "b", "value": {"intValue": "1"}}]}],
    "droppedEventsCount": 3, "status": {"code": 2, "message": "lost"}})"));
}

TEST(OtlpJsonTest, ARootHasNoParentAndAGoodSpanNoStatus) {
  const Json json = Json::parse(ToOtlpJson({}, {Named("run\xff")}));
  const Json& span = json["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_FALSE(span.contains("parentSpanId"));
  EXPECT_FALSE(span.contains("status"));
  EXPECT_EQ(span["name"], "run\xEF\xBF\xBD") << "bytes that are no UTF-8 are replaced";
}

TEST(OtlpJsonTest, AReplyMayRejectSpans) {
  EXPECT_EQ(ReadPartialSuccess(R"({"partialSuccess":{"rejectedSpans":"3","errorMessage":"old"}})").rejected, 3);
  EXPECT_EQ(ReadPartialSuccess(R"({"partialSuccess":{"rejectedSpans":2,"errorMessage":"old"}})").message, "old");
  for (const char* body : {"", "{}", "{", "[]", "\x0a\x02", R"({"partialSuccess":null})", R"({"partialSuccess":{}})",
                           R"({"partialSuccess":{"rejectedSpans":"x"}})", R"({"partialSuccess":{"rejectedSpans":-1}})"})
    EXPECT_EQ(ReadPartialSuccess(body).rejected, 0) << body;
}

TEST(SpanQueueTest, SpansWaitForOthersUntilABatchIsFull) {
  SpanQueue::Bounds bounds;
  bounds.batch_spans = 3;
  SpanQueue queue(bounds);
  EXPECT_EQ(queue.Due(), absl::InfiniteFuture());
  queue.Add(Named("a"), kNow);
  queue.Add(Named("b"), kNow + absl::Milliseconds(500));
  EXPECT_EQ(queue.Due(), kNow + absl::Seconds(1));
  queue.Add(Named("c"), kNow + absl::Milliseconds(500));
  EXPECT_LE(queue.Due(), kNow);
  queue.Add(Named("d"), kNow + absl::Milliseconds(600));
  EXPECT_THAT(Names(queue.TakeBatch()), ElementsAre("a", "b", "c"));
  EXPECT_EQ(queue.Due(), kNow + absl::Milliseconds(1600));
  EXPECT_THAT(Names(queue.TakeBatch()), ElementsAre("d"));
  EXPECT_EQ(queue.size(), 0u);
}

TEST(SpanQueueTest, ABatchHasABoundInBytesToo) {
  SpanQueue::Bounds bounds;
  bounds.batch_bytes = 2 * BytesOf(Named("a"));
  SpanQueue queue(bounds);
  for (const char* name : {"a", "b", "c"}) queue.Add(Named(name), kNow);
  EXPECT_LE(queue.Due(), kNow);
  EXPECT_THAT(Names(queue.TakeBatch()), ElementsAre("a", "b"));
  // A larger one goes alone.
  queue.Add(Named(std::string(4096, 'x')), kNow);
  EXPECT_THAT(Names(queue.TakeBatch()), ElementsAre("c"));
  EXPECT_EQ(queue.TakeBatch().size(), 1u);
}

TEST(SpanQueueTest, WhatDoesNotFitDropsTheOldest) {
  SpanQueue::Bounds bounds;
  bounds.batch_spans = 2;
  bounds.bytes = 3 * BytesOf(Named("a"));
  SpanQueue queue(bounds);
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(queue.Add(Named(name), kNow), 0u);
  EXPECT_EQ(queue.Add(Named("d"), kNow), 1u);
  std::vector<Span> batch = queue.TakeBatch();
  EXPECT_THAT(Names(batch), ElementsAre("b", "c"));
  // Others have come while the batch was on its way, and could not be sent.
  queue.Add(Named("e"), kNow + absl::Hours(1));
  EXPECT_EQ(queue.PutBack(std::move(batch)), 1u);
  EXPECT_LE(queue.Due(), kNow) << "those that were tried before are due";
  EXPECT_THAT(Names(queue.TakeBatch()), ElementsAre("c", "d"));
  EXPECT_THAT(Names(queue.TakeBatch()), ElementsAre("e"));
  EXPECT_EQ(queue.Add(Named(std::string(1 << 20, 'x')), kNow), 1u) << "one that is larger than the queue";
  EXPECT_EQ(queue.size(), 0u);
}

TEST(RetryAfterTest, IsSecondsOrADate) {
  EXPECT_EQ(RetryAfter("7", kNow), absl::Seconds(7));
  EXPECT_EQ(RetryAfter("0", kNow), absl::ZeroDuration());
  EXPECT_EQ(RetryAfter("99999999", kNow), kLongestRetryAfter);
  EXPECT_EQ(RetryAfter("Tue, 14 Nov 2023 22:13:50 GMT", kNow), absl::Seconds(30));
  EXPECT_EQ(RetryAfter("Tue, 14 Nov 2023 22:13:00 GMT", kNow), absl::ZeroDuration()) << "it has passed";
  for (const char* header : {"", "soon", "-1", "1.5", "999999999999", "Tue, 99 Nov 2023 22:13:50 GMT"})
    EXPECT_EQ(RetryAfter(header, kNow), absl::ZeroDuration()) << header;
}

}  // namespace
}  // namespace farandole
