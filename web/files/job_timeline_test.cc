#include "web/files/job_timeline.h"

#include <zlib.h>

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

using ::testing::HasSubstr;

v1::TimelinePart Part(uint32_t rank, const std::string& host, const std::string& lines, int64_t ahead_ns,
                      uint64_t error_ns, int64_t sent_ns = 0) {
  uLongf bytes = compressBound(lines.size());
  std::string packed(bytes, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &bytes, reinterpret_cast<const Bytef*>(lines.data()), lines.size());
  packed.resize(bytes);
  v1::TimelinePart part;
  part.set_rank(rank);
  part.set_host_id(host);
  part.mutable_chunk()->set_lines_zlib(packed);
  part.mutable_chunk()->set_lines_bytes(static_cast<uint32_t>(lines.size()));
  part.mutable_chunk()->set_events(1);
  part.mutable_chunk()->set_ahead_ns(ahead_ns);
  part.mutable_chunk()->set_error_ns(error_ns);
  part.mutable_chunk()->set_sent_ns(sent_ns);
  return part;
}

constexpr char kName[] = R"({"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"allreduce.\"ts\":5"}})";
constexpr char kSpan[] = R"({"ph":"X","name":"ALLREDUCE","pid":0,"tid":1,"ts":1000.250,"dur":2.000,"args":{"ts":7}})";

TEST(JobTimelineTest, HostsStandInTheCoordinatorsTime) {
  std::ostringstream text;
  // The second exchange of host a was the better one.
  const absl::StatusOr<JobTimeline> written =
      WriteJobTimeline({},
                       {Part(0, "a", std::string(kName) + ",\n" + kSpan, 9'000'000, 90'000),
                        Part(1, "a", kSpan, 5'000'000, 1'000), Part(2, "b", kSpan, -500'100, 2'000)},
                       text);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->events, 3u);
  EXPECT_EQ(written->ranks.size(), 3u);
  EXPECT_EQ(written->hosts.size(), 2u);
  EXPECT_EQ(written->error_ns, 3'000);
  const nlohmann::json json = nlohmann::json::parse(text.str());
  const nlohmann::json& events = json["traceEvents"];
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["args"]["name"], "allreduce.\"ts\":5");
  EXPECT_DOUBLE_EQ(events[1]["ts"], 6000.250);
  EXPECT_DOUBLE_EQ(events[2]["ts"], 6000.250);
  EXPECT_DOUBLE_EQ(events[3]["ts"], 500.150);
  EXPECT_EQ(events[3]["args"]["ts"], 7);
  EXPECT_EQ(json["otherData"]["error_between_hosts_us"], 3);
}

TEST(JobTimelineTest, TheErrorGrowsWithTheDistanceFromTheBestExchange) {
  std::ostringstream text;
  const int64_t later = 100'000'000'000;
  const absl::StatusOr<JobTimeline> written = WriteJobTimeline(
      {},
      {Part(0, "a", kSpan, 0, 1'000, 0), Part(0, "a", kSpan, 0, 50'000'000, later), Part(1, "b", kSpan, 0, 1'000, 0)},
      text);
  EXPECT_EQ(written->error_ns, 2'000 + 10'000'000);
}

TEST(JobTimelineTest, ALineWithoutATimeThatCanBeReadStaysAsItIs) {
  for (const std::string line :
       {R"("ts":1)", R"("ts":)", R"({"ts":-5,"a":1})", R"({"ts":99999999999999999999,"a":1})", R"({"ts":1.2.3,"a":1})",
        R"({"ts":1.9999999999,"a":1})", R"({"ts":4000000000000001,"a":1})"}) {
    std::ostringstream text;
    const absl::StatusOr<JobTimeline> written = WriteJobTimeline({}, {Part(0, "a", line, 0, 1)}, text);
    ASSERT_TRUE(written.ok()) << written.status();
    // The first one has a time, which the line ends with.
    EXPECT_THAT(text.str(), HasSubstr(line));
  }
}

TEST(JobTimelineTest, ClocksOfAnyDistanceDoNotOverflow) {
  for (const int64_t far : {INT64_MIN, INT64_MAX}) {
    std::ostringstream text;
    const absl::StatusOr<JobTimeline> written = WriteJobTimeline(
        {}, {Part(0, "a", kSpan, far, UINT64_MAX, far), Part(1, "b", kSpan, 0, UINT64_MAX, -1 - far)}, text);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_GT(written->error_ns, 0);
    EXPECT_EQ(nlohmann::json::parse(text.str())["traceEvents"].size(), 2u);
  }
}

TEST(JobTimelineTest, WhatIsWrittenIsBoundedWhateverTheClocks) {
  // 8 bytes each become 27.
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "\"ts\":0,\n";
  const v1::TimelinePart part = Part(0, "a", lines, INT64_MAX, 1);
  std::ostringstream text;
  const absl::Status refused = WriteJobTimeline({}, {part}, text, 20'000).status();
  EXPECT_EQ(refused, absl::OutOfRangeError("the timeline's file has more than 20000 bytes"));
  EXPECT_LT(text.str().size(), 20'300u);
  std::ostringstream whole;
  ASSERT_TRUE(WriteJobTimeline({}, {part}, whole, 40'000).ok());
  EXPECT_GT(whole.str().size(), 2 * lines.size());
}

TEST(JobTimelineTest, EachNameIsWrittenOnce) {
  std::ostringstream text;
  const std::string process =
      R"({"ph":"M","name":"process_name","pid":0,"args":{"name":"rank 0","start_time_since_epoch_in_micros":)";
  const absl::StatusOr<JobTimeline> written =
      WriteJobTimeline({},
                       {Part(0, "a", process + "1}},\n" + kName + ",\n" + kSpan, 0, 1),
                        Part(0, "a", process + "2}},\n" + kName + ",\n" + kSpan, 0, 1)},
                       text);
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(nlohmann::json::parse(text.str())["traceEvents"].size(), 4u);
  EXPECT_EQ(written->error_ns, 0);
}

TEST(JobTimelineTest, NamesAreLookedForUpToABound) {
  std::string names;
  for (int i = 0; i < 100'000; ++i)
    names += (i == 0 ? "" : ",\n") + std::string(R"({"ph":"M","name":")") + std::to_string(i) + "\"}";
  std::ostringstream text;
  ASSERT_TRUE(WriteJobTimeline({}, {Part(0, "a", names, 0, 1), Part(0, "a", names, 0, 1)}, text).ok());
  EXPECT_EQ(nlohmann::json::parse(text.str())["traceEvents"].size(), 2 * 100'000u - (1 << 16));
}

TEST(JobTimelineTest, AHostWithoutAClockIsLeftOut) {
  std::ostringstream text;
  const absl::StatusOr<JobTimeline> written =
      WriteJobTimeline({}, {Part(0, "a", kSpan, 0, 0), Part(1, "b", kSpan, 0, 1)}, text);
  EXPECT_EQ(written->left_out, 1u);
  EXPECT_EQ(written->events, 1u);
}

TEST(JobTimelineTest, APartThatIsBrokenIsNamed) {
  std::ostringstream text;
  v1::TimelinePart part = Part(3, "a", kSpan, 0, 1);
  part.mutable_chunk()->set_lines_zlib("nothing");
  EXPECT_THAT(WriteJobTimeline({}, {part}, text).status().ToString(), HasSubstr("of rank 3, cannot be unpacked"));
}

}  // namespace
}  // namespace farandole
