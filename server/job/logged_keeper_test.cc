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
  LoggedKeeperTest() {
    for (int index = 0; index < 2; ++index) {
      JoinRequested join{shell_.NewCall(), {}};
      join.request.set_job("mnist");
      join.request.mutable_member()->set_incarnation(IncarnationOf(absl::StrCat("w", index)));
      join.request.mutable_member()->set_host_id("a");
      join.request.mutable_member()->set_pid(1 + index);
      join.request.set_launch_index(static_cast<uint32_t>(index));
      join.request.set_wanted_size(2);
      join.request.set_protocol_version(kProtocolVersion);
      join.request.set_join_timeout_ms(5000);
      join.request.set_stall_warning_ms(60000);
      shell_.Step(join);
      streams_.push_back(Attach(index, 0));
    }
  }

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
  std::vector<StreamId> streams_;
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

}  // namespace
}  // namespace farandole
