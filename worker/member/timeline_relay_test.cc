#include "worker/member/timeline_relay.h"

#include <zlib.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

class TimelineRelayTest : public testing::Test {
 protected:
  void Order(bool is_on, const v1::TimelineChunk* answered = nullptr) {
    v1::TimelineOrder order;
    order.set_epoch(1);
    order.set_recording(4);
    order.set_is_on(is_on);
    if (answered != nullptr) {
      order.set_sent_ns(answered->sent_ns());
      order.set_coordinator_unix_ns(answered->sent_ns() + 1'000'000);
    }
    relay_.Take(order);
  }
  // Answers all chunks that come until the clocks are compared often enough.
  void AnswerProbes() {
    for (size_t answered = 0; answered < sent().size(); ++answered) {
      const v1::TimelineChunk chunk = sent()[answered];
      now_ns_ += 2'000;
      Order(true, &chunk);
    }
  }
  void Record(const std::string& name) {
    Submission submission;
    submission.name = name;
    submission.submitted_ns = 1'000;
    submission.started_ns = 2'000;
    timeline_.Add(submission, 3'000);
  }
  std::vector<v1::TimelineChunk> sent() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return sent_;
  }
  v1::TimelineChunk AwaitEvents(size_t from) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return sent_.size() > from && sent_.back().events() > 0; });
    return sent_.back();
  }
  static std::string LinesOf(const v1::TimelineChunk& chunk) {
    std::string lines(chunk.lines_bytes(), '\0');
    uLongf bytes = lines.size();
    EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(lines.data()), &bytes,
                         reinterpret_cast<const Bytef*>(chunk.lines_zlib().data()), chunk.lines_zlib().size()),
              Z_OK);
    return lines;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1::TimelineChunk> sent_;
  std::atomic<int64_t> now_ns_{1'000'000};
  Timeline timeline_;
  TimelineRelay relay_{&timeline_, 3, "rank 3", [this] { return now_ns_.load(); },
                       [this](v1::TimelineChunk chunk) {
                         const std::lock_guard<std::mutex> lock(mutex_);
                         sent_.push_back(std::move(chunk));
                         changed_.notify_all();
                       }};
};

TEST_F(TimelineRelayTest, ItRecordsOnlyFromItsOrderToItsEnd) {
  EXPECT_FALSE(timeline_.is_on());
  Record("too early");
  Order(true);
  EXPECT_TRUE(timeline_.is_on());
  AnswerProbes();
  Record("x");
  const v1::TimelineChunk chunk = AwaitEvents(0);
  EXPECT_EQ(chunk.recording(), 4u);
  EXPECT_TRUE(absl::StrContains(LinesOf(chunk), "allreduce.x"));
  EXPECT_FALSE(absl::StrContains(LinesOf(chunk), "too early"));
  Order(false);
  EXPECT_FALSE(timeline_.is_on());
  EXPECT_TRUE(sent().back().is_last());
}

TEST_F(TimelineRelayTest, ProbesMatchTheClocksBeforeThereAreEvents) {
  Order(true);
  AnswerProbes();
  EXPECT_EQ(sent().size(), 8u);
  EXPECT_EQ(sent().back().error_ns(), 1'001u);
  EXPECT_EQ(sent().back().ahead_ns(), 1'000'000 - 1'000);
}

TEST_F(TimelineRelayTest, TwoChunksAtMostAreUnansweredAndTheRestGoesTogether) {
  Order(true);
  AnswerProbes();
  const size_t before = sent().size();
  for (int i = 0; i < 2; ++i) {
    Record(absl::StrCat("a", i));
    AwaitEvents(before + static_cast<size_t>(i));
  }
  for (int i = 0; i < 100; ++i) Record(absl::StrCat("b", i));
  // They are with the relay when its end is ordered, and not before: nothing was answered.
  EXPECT_EQ(sent().size(), before + 2);
  Order(false);
  ASSERT_EQ(sent().size(), before + 3);
  EXPECT_EQ(sent().back().events(), 100u);
  EXPECT_TRUE(sent().back().is_last());
}

TEST_F(TimelineRelayTest, EachChunkNamesItsRowsAndKeepsTheirNumbers) {
  Order(true);
  AnswerProbes();
  Record("first");
  Record("second");
  const v1::TimelineChunk one = AwaitEvents(sent().size());
  const size_t before = sent().size();
  Record("second");
  const v1::TimelineChunk other = AwaitEvents(before);
  const std::string row = R"("tid":2,"args":{"name":"allreduce.second"})";
  EXPECT_TRUE(absl::StrContains(LinesOf(one), row)) << LinesOf(one);
  EXPECT_TRUE(absl::StrContains(LinesOf(other), row)) << LinesOf(other);
  EXPECT_FALSE(absl::StrContains(LinesOf(other), "first"));
}

TEST_F(TimelineRelayTest, EventsBeyondWhatMayWaitAreLostAndCounted) {
  Order(true);
  AnswerProbes();
  for (int i = 0; i < 60'000; ++i) Record("y");
  Order(false);
  uint64_t events = 0;
  for (const v1::TimelineChunk& chunk : sent()) events += chunk.events();
  EXPECT_GT(sent().back().dropped(), 0u);
  EXPECT_EQ(events + sent().back().dropped(), 60'000u);
}

TEST_F(TimelineRelayTest, AnAnswerToAnEarlierRecordingEndsNothing) {
  Order(true);
  AnswerProbes();
  v1::TimelineOrder late;
  late.set_recording(3);
  late.set_sent_ns(1);
  relay_.Take(late);
  EXPECT_TRUE(timeline_.is_on());
  // A coordinator that was restarted records nothing, and says so.
  const v1::TimelineChunk chunk = sent().back();
  Order(false, &chunk);
  EXPECT_FALSE(timeline_.is_on());
}

TEST_F(TimelineRelayTest, LeavingSendsWhatThereIs) {
  Order(true);
  AnswerProbes();
  Record("last words");
  relay_.Finish();
  EXPECT_TRUE(sent().back().is_last());
  std::string lines;
  for (const v1::TimelineChunk& chunk : sent()) lines += chunk.events() > 0 ? LinesOf(chunk) : "";
  EXPECT_TRUE(absl::StrContains(lines, "last words"));
  EXPECT_FALSE(timeline_.is_on());
}

TEST_F(TimelineRelayTest, AnOrderToEndIsAnsweredAlsoWhereNothingWasRecorded) {
  Order(false);
  ASSERT_EQ(sent().size(), 1u);
  EXPECT_TRUE(sent()[0].is_last());
  EXPECT_EQ(sent()[0].recording(), 4u);
}

}  // namespace
}  // namespace farandole
