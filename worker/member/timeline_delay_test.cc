// How long an event of the timeline takes until it is sent.
#include <time.h>
#include <zlib.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/member/timeline_relay.h"

namespace farandole {
namespace {

// As docs/timeline.md promises.
constexpr int64_t kPromisedNs = 100'000'000;
// Other work of the machine makes some of them late.
constexpr size_t kRounds = 9;

int64_t NowNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int64_t MedianOf(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class TimelineDelayTest : public testing::Test {
 protected:
  void SetUp() override {
    v1::TimelineOrder order;
    order.set_recording(1);
    order.set_is_on(true);
    relay_.Take(order);
    for (size_t answered = 0; answered < count(); ++answered) Answer(answered);
  }
  void Answer(size_t at) {
    v1::TimelineOrder order;
    order.set_recording(1);
    order.set_is_on(true);
    order.set_sent_ns(chunk(at).sent_ns());
    order.set_coordinator_unix_ns(chunk(at).sent_ns());
    relay_.Take(order);
  }
  // Returns when the tensor was complete.
  int64_t Record(const std::string& name) {
    Submission submission;
    submission.name = name;
    submission.submitted_ns = submission.started_ns = NowNs();
    const int64_t now_ns = NowNs();
    timeline_.Add(submission, now_ns);
    return now_ns;
  }
  static std::string LinesOf(const v1::TimelineChunk& chunk) {
    std::string lines(chunk.lines_bytes(), '\0');
    uLongf bytes = lines.size();
    if (bytes == 0) return lines;
    EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(lines.data()), &bytes,
                         reinterpret_cast<const Bytef*>(chunk.lines_zlib().data()), chunk.lines_zlib().size()),
              Z_OK);
    return lines;
  }
  size_t count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return sent_.size();
  }
  v1::TimelineChunk chunk(size_t at) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return sent_[at];
  }
  v1::TimelineChunk Await(size_t at) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return sent_.size() > at; });
    return sent_[at];
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1::TimelineChunk> sent_;
  Timeline timeline_;
  TimelineRelay relay_{&timeline_, 0, "rank 0", NowNs, [this](v1::TimelineChunk chunk) {
                         const std::lock_guard<std::mutex> lock(mutex_);
                         sent_.push_back(std::move(chunk));
                         changed_.notify_all();
                       }};
};

TEST_F(TimelineDelayTest, AnEventIsSentWithinATenthOfASecond) {
  std::vector<int64_t> delays;
  while (delays.size() < kRounds) {
    const size_t at = count();
    const int64_t ended_ns = Record("x");
    const v1::TimelineChunk chunk = Await(at);
    EXPECT_EQ(chunk.events(), 1u);
    delays.push_back(chunk.sent_ns() - ended_ns);
    Answer(at);
  }
  RecordProperty("median_ns", std::to_string(MedianOf(delays)));
  EXPECT_LT(MedianOf(delays), kPromisedNs);
}

TEST_F(TimelineDelayTest, SoIsTheFirstOfManyThatComeWithoutABreak) {
  std::vector<int64_t> delays;
  size_t at = count();
  while (delays.size() < kRounds) {
    const std::string name = absl::StrCat("first", delays.size());
    const int64_t ended_ns = Record(name);
    for (bool has_come = false; !has_come;) {
      Record("other");
      for (; !has_come && at < count(); ++at) {
        has_come = absl::StrContains(LinesOf(chunk(at)), name);
        if (has_come) delays.push_back(chunk(at).sent_ns() - ended_ns);
        Answer(at);
      }
    }
  }
  EXPECT_LT(MedianOf(delays), kPromisedNs);
}

}  // namespace
}  // namespace farandole
