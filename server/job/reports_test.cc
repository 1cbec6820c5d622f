#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/job/job.h"
#include "server/job/rules/bounds.h"
#include "server/job/script.h"
#include "server/job/test_shell.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A job of two ranks that runs.
class LoggedKeeperTest : public testing::Test {
 protected:
  StreamId Attach(int index, uint64_t epoch) {
    v1::Hello hello;
    hello.set_job("mnist");
    hello.set_incarnation(IncarnationOf(absl::StrCat("w", index)));
    hello.set_epoch(epoch);
    const StreamId stream = shell_.NewStream();
    shell_.Step(StreamOpened{stream, hello});
    return stream;
  }
  void Log(size_t rank, uint64_t first, int64_t step, double value) {
    v1::WorkerMessage message;
    message.mutable_heartbeat()->set_epoch(1);
    v1::LoggedPoints* points = message.mutable_heartbeat()->add_logged();
    points->set_first(first);
    points->set_epoch(1);
    points->add_names("loss");
    points->add_by_rank(false);
    points->add_name(0);
    points->add_step(step);
    points->add_value(value);
    points->add_age_ms(0);
    shell_.Step(MessageReceived{streams_[rank], message});
  }
  void Live(int seconds) {
    v1::WorkerMessage beat;
    beat.mutable_heartbeat()->set_epoch(1);
    for (int second = 0; second < seconds; ++second) {
      for (const StreamId stream : streams_) shell_.Step(MessageReceived{stream, beat});
      shell_.Advance(absl::Seconds(1), [](const Actions&) {});
    }
  }
  v1::ListLoggedResponse List() {
    for (const Output& output : shell_.Step(LoggedListed{shell_.NewCall(), {}}).outputs) {
      const auto* reply = std::get_if<Reply>(&output);
      if (reply != nullptr) return std::get<v1::ListLoggedResponse>(reply->message);
    }
    return {};
  }
  int LoggedRows() const {
    int rows = 0;
    for (const auto& [key, value] : shell_.rows()) rows += key.rfind("logged/", 0) == 0 ? 1 : 0;
    return rows;
  }

  TestShell shell_{JobOptions()};
  std::vector<StreamId> streams_ = shell_.FormEpoch(2);
};

TEST_F(LoggedKeeperTest, PointsAreShownAtOnceAndKeptWithinTwoSeconds) {
  Log(0, 1, 5, 1.0);
  Log(1, 1, 5, 3.0);
  EXPECT_THAT(List().series(0).mean(), ElementsAre(2.0));
  EXPECT_EQ(LoggedRows(), 0);
  Live(3);
  EXPECT_EQ(LoggedRows(), 2);
}

TEST_F(LoggedKeeperTest, ARestartKeepsThemAndPointsSentAgainCountOnce) {
  Log(0, 1, 5, 1.0);
  Live(3);
  Log(1, 1, 5, 3.0);
  shell_.Restart([](const Actions&) {});
  streams_ = {Attach(0, 1), Attach(1, 1)};
  EXPECT_THAT(List().series(0).mean(), ElementsAre(1.0));
  Log(0, 1, 5, 1.0);
  Log(1, 1, 5, 3.0);
  EXPECT_THAT(List().series(0).mean(), ElementsAre(2.0));
  EXPECT_THAT(List().series(0).count(), ElementsAre(2u));
  EXPECT_THAT(shell_.broken(), testing::IsEmpty());
}

TEST_F(LoggedKeeperTest, TheEndOfTheRunKeepsThemAndTheyCanBeReadAfterwards) {
  Log(0, 1, 5, 1.0);
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
  EXPECT_EQ(LoggedRows(), 2);
  shell_.Restart([](const Actions&) {});
  EXPECT_THAT(List().series(0).mean(), ElementsAre(1.0));
}

TEST_F(LoggedKeeperTest, AWorkerThatSendsNonsenseIsRefused) {
  v1::WorkerMessage message;
  message.mutable_heartbeat()->set_epoch(1);
  v1::LoggedPoints* points = message.mutable_heartbeat()->add_logged();
  points->set_first(1);
  points->add_name(3);
  EXPECT_THAT(CheckMessage(message, 2).ToString(), HasSubstr("a column of 1 logged point has 0 numbers"));
  points->add_step(0);
  points->add_value(0);
  points->add_age_ms(0);
  EXPECT_THAT(CheckMessage(message, 2).ToString(), HasSubstr("the index of a logged name is 3 of 0 names"));
  points->set_name(0, 0);
  points->add_names("x");
  EXPECT_THAT(CheckMessage(message, 2).ToString(), HasSubstr("of 1 logged name, 0 say whether they are kept by rank"));
  points->add_by_rank(false);
  EXPECT_TRUE(CheckMessage(message, 2).ok());
  points->set_epoch(2);
  EXPECT_THAT(CheckMessage(message, 2).ToString(), HasSubstr("logged.epoch is 2; it must be 0 to 1"));
  shell_.Step(MessageReceived{streams_[0], message});
  EXPECT_FALSE(shell_.IsOpen(streams_[0]));
  EXPECT_EQ(List().series_size(), 0);
}

// A job of two ranks that runs.
class TimelineRecordTest : public testing::Test {
 protected:
  // The sentence, or the refusal.
  std::string Order(bool is_on) { return Answer(shell_.Step(TimelineOrdered{shell_.NewCall(), is_on})); }
  std::string Answer(const Actions& actions) {
    orders_.clear();
    std::string answer;
    for (const Output& output : actions.outputs) {
      if (const auto* send = std::get_if<Send>(&output); send != nullptr && send->message->has_timeline_order())
        orders_.push_back(send->message->timeline_order());
      const auto* reply = std::get_if<Reply>(&output);
      if (reply == nullptr) continue;
      const auto* response = std::get_if<v1::RecordTimelineResponse>(&reply->message);
      answer = response == nullptr ? std::string(reply->status.message()) : response->sentence();
    }
    return answer;
  }
  std::string SendChunk(size_t rank, uint64_t recording, const std::string& lines, bool is_last = false,
                        int64_t sent_ns = 5) {
    v1::WorkerMessage message;
    v1::TimelineChunk* chunk = message.mutable_timeline_chunk();
    chunk->set_epoch(1);
    chunk->set_recording(recording);
    chunk->set_lines_zlib(lines);
    chunk->set_lines_bytes(static_cast<uint32_t>(lines.size()));
    chunk->set_events(lines.empty() ? 0 : 1);
    chunk->set_is_last(is_last);
    chunk->set_sent_ns(sent_ns);
    return Answer(shell_.Step(MessageReceived{streams_[rank], message}));
  }
  v1::GetTimelineResponse Get(uint64_t from = 0) {
    for (const Output& output : shell_.Step(TimelineFetched{shell_.NewCall(), from}).outputs) {
      const auto* reply = std::get_if<Reply>(&output);
      if (reply == nullptr) continue;
      if (const auto* response = std::get_if<v1::GetTimelineResponse>(&reply->message)) return *response;
    }
    return {};
  }

  TestShell shell_{JobOptions()};
  std::vector<StreamId> streams_ = shell_.FormEpoch(2);
  std::vector<v1::TimelineOrder> orders_;
};

TEST_F(TimelineRecordTest, AllRanksAreToldAndTheirChunksAreKeptAndAnswered) {
  EXPECT_EQ(Order(true), "timeline 1 of job mnist begins");
  ASSERT_EQ(orders_.size(), 2u);
  EXPECT_TRUE(orders_[1].is_on());
  SendChunk(1, 1, "first", false, 77);
  ASSERT_EQ(orders_.size(), 1u);
  EXPECT_EQ(orders_[0].sent_ns(), 77);
  EXPECT_GT(orders_[0].coordinator_unix_ns(), 0);
  SendChunk(0, 1, "second");
  const v1::GetTimelineResponse got = Get();
  ASSERT_EQ(got.parts_size(), 2);
  EXPECT_EQ(got.parts(0).rank(), 1u);
  EXPECT_EQ(got.parts(0).chunk().lines_zlib(), "first");
  EXPECT_EQ(got.parts(0).host_id(), "a");
  EXPECT_TRUE(got.is_on());
  EXPECT_EQ(Get(got.parts(1).number()).parts_size(), 1);
  EXPECT_THAT(Order(true), HasSubstr("job mnist records a timeline already"));
}

TEST_F(TimelineRecordTest, EventsThatRanksDroppedAreCounted) {
  Order(true);
  for (const uint64_t dropped : {2, 5}) {
    for (const StreamId stream : streams_) {
      v1::WorkerMessage message;
      message.mutable_timeline_chunk()->set_epoch(1);
      message.mutable_timeline_chunk()->set_recording(1);
      message.mutable_timeline_chunk()->set_dropped(dropped);
      shell_.Step(MessageReceived{stream, message});
    }
    EXPECT_EQ(Get().dropped(), 2 * dropped);
  }
}

TEST_F(TimelineRecordTest, ANumberBeyondAllAsksForTheNumberThatIsToCome) {
  Order(true);
  EXPECT_EQ(Get(std::numeric_limits<uint64_t>::max()).next(), 1u);
  SendChunk(0, 1, "first");
  SendChunk(1, 1, "second");
  const v1::GetTimelineResponse got = Get(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(got.parts_size(), 0);
  EXPECT_EQ(got.next(), 3u);
  EXPECT_EQ(Get(3).next(), 0u) << "there are no more";
}

TEST_F(TimelineRecordTest, AWorkerThatClaimsNoBytesOfItsLinesIsRefused) {
  Order(true);
  v1::WorkerMessage message;
  v1::TimelineChunk* const chunk = message.mutable_timeline_chunk();
  chunk->set_epoch(1);
  chunk->set_recording(1);
  chunk->set_events(1);
  EXPECT_TRUE(CheckMessage(message, 2).ok());
  chunk->set_lines_zlib("x");
  EXPECT_THAT(CheckMessage(message, 2).ToString(), HasSubstr("lines_bytes is 0; it must be 1 to 8388608"));
  shell_.Step(MessageReceived{streams_[0], message});
  EXPECT_FALSE(shell_.IsOpen(streams_[0]));
  EXPECT_EQ(Get().parts_size(), 0);
}

TEST_F(TimelineRecordTest, StoppingWaitsForTheLastChunks) {
  EXPECT_THAT(Order(false), HasSubstr("job mnist records no timeline"));
  Order(true);
  EXPECT_EQ(Order(false), "");
  EXPECT_EQ(orders_.size(), 2u);
  EXPECT_FALSE(orders_[0].is_on());
  EXPECT_EQ(SendChunk(0, 1, "last", true), "");
  EXPECT_EQ(SendChunk(1, 1, "", true), "timeline 1 of job mnist has ended");
  EXPECT_EQ(Get().parts_size(), 1);
}

TEST_F(TimelineRecordTest, ARankThatDoesNotAnswerIsWaitedForOnlyTwoSeconds) {
  Order(true);
  Order(false);
  SendChunk(0, 1, "last", true);
  std::string answer;
  v1::WorkerMessage beat;
  beat.mutable_heartbeat()->set_epoch(1);
  for (int second = 0; second < 3 && answer.empty(); ++second) {
    for (const StreamId stream : streams_) shell_.Step(MessageReceived{stream, beat});
    shell_.Advance(absl::Seconds(1), [&](const Actions& actions) { answer += Answer(actions); });
  }
  EXPECT_THAT(answer, HasSubstr("1 rank did not answer"));
}

TEST_F(TimelineRecordTest, ChunksOfAnEarlierRecordingAreToldToEnd) {
  Order(true);
  Order(false);
  SendChunk(0, 1, "", true);
  SendChunk(1, 1, "", true);
  Order(true);
  SendChunk(0, 1, "old");
  ASSERT_EQ(orders_.size(), 1u);
  EXPECT_FALSE(orders_[0].is_on());
  EXPECT_EQ(orders_[0].recording(), 1u);
  EXPECT_EQ(Get().parts_size(), 0);
}

TEST_F(TimelineRecordTest, TheLatestAreKeptWithinTheBound) {
  Order(true);
  const std::string chunk(1 << 20, 'x');
  for (int i = 0; i < 40; ++i) SendChunk(0, 1, chunk);
  const v1::GetTimelineResponse got = Get();
  EXPECT_EQ(got.parts_size(), 1);
  EXPECT_NE(got.next(), 0u);
  EXPECT_EQ(got.forgotten(), 9u);
  EXPECT_EQ(got.parts(0).number(), 10u);
  const int64_t beside_chunks = (256 << 20) - 31 * (1 << 20) - shell_.options().timelines->left();
  EXPECT_GT(beside_chunks, 31 * 64);
  EXPECT_LT(beside_chunks, 31 * 1024);
}

TEST_F(TimelineRecordTest, ItIsKeptForAnHourAfterTheJobsEnd) {
  Order(true);
  SendChunk(0, 1, "kept");
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
  EXPECT_EQ(Get().parts_size(), 1);
  EXPECT_FALSE(Get().is_on());
  EXPECT_FALSE(shell_.job().IsIdle());
  EXPECT_THAT(Order(true), HasSubstr("job mnist has no workers that could record"));
  shell_.Advance(absl::Hours(1) + absl::Seconds(1), [](const Actions&) {});
  EXPECT_EQ(Get().parts_size(), 0);
  EXPECT_EQ(shell_.options().timelines->left(), 256 << 20);
}

TEST_F(TimelineRecordTest, AfterARestartOfTheCoordinatorThereIsNone) {
  Order(true);
  SendChunk(0, 1, "lost");
  shell_.Restart([](const Actions&) {});
  EXPECT_EQ(Get().recording(), 0u);
}

}  // namespace
}  // namespace farandole
