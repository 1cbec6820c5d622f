#include "worker/engine/submissions/book/timeline.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

std::string PathIn(const std::string& name) { return testing::TempDir() + "/" + name; }

nlohmann::json Read(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

void Record(Timeline& timeline, const std::string& name, int64_t submitted_ns, int64_t started_ns, int64_t ended_ns,
            const absl::Status& status = absl::OkStatus()) {
  Submission submission;
  submission.name = name;
  submission.count = 3;
  submission.group = 2;
  submission.submitted_ns = submitted_ns;
  submission.started_ns = started_ns;
  submission.status = status;
  timeline.Add(submission, ended_ns);
}

// Events that are no metadata.
std::vector<nlohmann::json> Spans(const nlohmann::json& all) {
  std::vector<nlohmann::json> spans;
  for (const nlohmann::json& event : all) {
    if (event["ph"] != "M") spans.push_back(event);
  }
  return spans;
}

TEST(TimelineTest, OtherRanksThanTheFirstHaveFilesOfTheirOwn) {
  EXPECT_EQ(Timeline::PathOf("/tmp/a.b/t.json", 0), "/tmp/a.b/t.json");
  EXPECT_EQ(Timeline::PathOf("/tmp/a.b/t.json", 3), "/tmp/a.b/t.rank3.json");
  EXPECT_EQ(Timeline::PathOf("/tmp/a.b/t", 3), "/tmp/a.b/t.rank3");
  EXPECT_EQ(Timeline::PathOf("/tmp/.hidden", 12), "/tmp/.hidden.rank12");
  EXPECT_EQ(Timeline::PathOf("t.json", 1), "t.rank1.json");
}

TEST(TimelineTest, AFileIsWrittenAnewAlsoWhereAProfilerGoesOn) {
  const std::string path = PathIn("profiled.json");
  const ProfilerRanges profiler;
  Timeline timeline;
  timeline.Attach(&profiler);
  for (int life = 0; life < 2; ++life) {
    ASSERT_TRUE(timeline.Start(path, false, 0, "rank 0").ok());
    Record(timeline, "x", 1'000, 2'000, 3'000);
    timeline.Stop();
    Record(timeline, "late", 1'000, 2'000, 3'000);
    EXPECT_EQ(Spans(Read(path)).size(), 2u);
    ASSERT_EQ(std::remove(path.c_str()), 0);
  }
}

TEST(TimelineTest, ALinkOfAnotherUserIsNotFollowed) {
  const std::string target = PathIn("target.json"), link = PathIn("link.json");
  ASSERT_EQ(symlink(target.c_str(), link.c_str()), 0);
  Timeline timeline;
  ASSERT_TRUE(timeline.Start(link, false, 0, "rank 0").ok()) << "it is this user's own";
  timeline.Stop();
  ASSERT_TRUE(timeline.Start("/dev/null", false, 0, "rank 0").ok());
  timeline.Stop();
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a link away";
  ASSERT_EQ(lchown(link.c_str(), 65534, 65534), 0);
  const absl::Status refused = timeline.Start(link, false, 0, "rank 0");
  EXPECT_TRUE(absl::StrContains(refused.message(), link + " cannot be written: it belongs to user 65534")) << refused;
  EXPECT_FALSE(Read(target).empty());
}

TEST(TimelineTest, ShowsWhatIsOnAGpu) {
  const std::string path = PathIn("gpu.json");
  Timeline timeline;
  const GpuRecorder recorder = timeline.GpuTimes();
  EXPECT_FALSE(recorder.is_on());
  recorder.add("nobody listens", 1, 2);
  ASSERT_TRUE(timeline.Start(path, false, 0, "rank 0").ok());
  EXPECT_TRUE(recorder.is_on());
  recorder.add("'x' and 3 others", 1'000'000, 1'250'000);
  timeline.Stop();
  const std::vector<nlohmann::json> spans = Spans(Read(path));
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0]["name"], "ON_GPU");
  EXPECT_DOUBLE_EQ(spans[0]["dur"], 250);
  EXPECT_EQ(spans[0]["args"]["tensors"], "'x' and 3 others");
}

TEST(TimelineTest, ShowsHowLongATensorWaitedAndHowLongItTravelled) {
  const std::string path = PathIn("spans.json");
  Timeline timeline;
  ASSERT_TRUE(timeline.Start(path, false, 0, "rank 0 (pid 7 on host a)").ok());
  Record(timeline, "layer \"1\"\n", 1'000'000, 1'250'500, 1'400'000);
  Record(timeline, "small", 2'000'000, 0, 2'001'000);
  Record(timeline, "small", 3'000'000, 3'000'500, 3'001'000, absl::InvalidArgumentError("shapes differ"));
  timeline.Stop();
  const nlohmann::json all = Read(path);
  EXPECT_EQ(all[0]["args"]["name"], "rank 0 (pid 7 on host a)");
  EXPECT_GT(all[0]["args"]["start_time_since_epoch_in_micros"], 1'600'000'000'000'000);
  const std::vector<nlohmann::json> spans = Spans(all);
  ASSERT_EQ(spans.size(), 6u);
  EXPECT_EQ(spans[0]["name"], "NEGOTIATE_ALLREDUCE");
  EXPECT_DOUBLE_EQ(spans[0]["dur"], 250.5);
  EXPECT_EQ(spans[1]["name"], "ALLREDUCE");
  EXPECT_DOUBLE_EQ(spans[1]["dur"], 149.5);
  EXPECT_EQ(spans[1]["args"], nlohmann::json::parse(R"({"dtype":"float32","elements":3,"bytes":12,"process_set":2})"));
  EXPECT_EQ(spans[0]["tid"], spans[1]["tid"]);
  EXPECT_NEAR(spans[2]["ts"].get<double>() - spans[0]["ts"].get<double>(), 1000.0, 0.5);
  EXPECT_DOUBLE_EQ(spans[3]["dur"], 0.0) << "what was part of no batch";
  EXPECT_EQ(spans[5]["args"]["error"], "INVALID_ARGUMENT: shapes differ");
  std::vector<std::string> rows;
  for (const nlohmann::json& event : all) {
    if (event["name"] == "thread_name") rows.push_back(event["args"]["name"]);
  }
  EXPECT_EQ(rows, (std::vector<std::string>{"allreduce.layer \"1\"\n", "allreduce.small"}));
}

TEST(TimelineTest, MarksWhereBatchesBeginIfThatIsWanted) {
  for (const bool marks : {false, true}) {
    const std::string path = PathIn("cycles.json");
    Timeline timeline;
    ASSERT_TRUE(timeline.Start(path, marks, 4, "rank 4").ok());
    timeline.MarkCycle(5'000);
    Record(timeline, "t", 1'000, 5'000, 6'000);
    timeline.Stop();
    const std::vector<nlohmann::json> spans = Spans(Read(PathIn("cycles.rank4.json")));
    ASSERT_EQ(spans.size(), marks ? 3u : 2u);
    EXPECT_EQ(spans[0]["name"], marks ? "CYCLE_START" : "NEGOTIATE_ALLREDUCE");
    EXPECT_EQ(spans[0]["pid"], 4);
  }
}

TEST(TimelineTest, GoesOnInTheSameFileAndEndsAnotherOne) {
  const std::string path = PathIn("again.json");
  Timeline timeline;
  timeline.Stop();
  ASSERT_TRUE(timeline.Start(PathIn("before.json"), false, 0, "").ok());
  Record(timeline, "t", 1, 2, 3);
  ASSERT_TRUE(timeline.Start(path, false, 0, "").ok());
  Record(timeline, "t", 1, 2, 3);
  ASSERT_TRUE(timeline.Start(path, true, 0, "").ok());
  timeline.MarkCycle(4);
  EXPECT_FALSE(timeline.Start("/no/such/folder/t.json", false, 0, "").ok());
  timeline.Stop();
  EXPECT_FALSE(timeline.is_on());
  EXPECT_EQ(Spans(Read(PathIn("before.json"))).size(), 2u);
  EXPECT_EQ(Spans(Read(path)).size(), 3u);
  ASSERT_TRUE(timeline.Start(path, false, 0, "").ok());
  timeline.Stop();
  EXPECT_TRUE(Spans(Read(path)).empty());
}

TEST(TimelineTest, AFileThatCannotBeWrittenIsNamed) {
  Timeline timeline;
  EXPECT_EQ(timeline.Start("/no/such/folder/t.json", false, 2, ""),
            absl::InvalidArgumentError(
                "the timeline /no/such/folder/t.rank2.json cannot be written: No such file or directory"));
  EXPECT_FALSE(timeline.is_on());
}

TEST(TimelineTest, NothingIsLostUnseenWhateverManyThreadsDo) {
  const std::string path = PathIn("threads.json");
  constexpr int kEach = 40'000;
  Timeline timeline;
  ASSERT_TRUE(timeline.Start(path, false, 0, "").ok());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&timeline, thread] {
      for (int i = 0; i < kEach; ++i) Record(timeline, thread == 0 ? "a" : "b", 1, 2, 3);
    });
  }
  for (std::thread& thread : threads) thread.join();
  timeline.Stop();
  // One event on a line: as one document they would keep a sanitizer busy for half a minute.
  uint64_t seen = 0;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (absl::StrContains(line, R"("name":"ALLREDUCE")")) ++seen;
    if (!absl::StrContains(line, R"("name":"DROPPED")")) continue;
    seen += nlohmann::json::parse(absl::StripSuffix(line, ","))["args"]["events"].get<uint64_t>();
  }
  EXPECT_EQ(seen, 2u * kEach);
}

}  // namespace
}  // namespace farandole
