// The fate of a worker's stream when its coordinator dies, forgets it or refuses it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/retry/retry_delay.h"
#include "gtest/gtest.h"
#include "worker/control/coordinator_client.h"
#include "worker/control/scripted_coordinator.h"
#include "worker/control/worker_under_test.h"

namespace farandole {
namespace {

constexpr absl::Duration kBound = absl::Seconds(10);

TEST(CoordinatorReattachTest, ARestartedCoordinatorGetsTheHelloAndThenWhatIsUnanswered) {
  ScriptedCoordinator coordinator;
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  worker.resend = [](CoordinatorClient& client) {
    client.Send(WorkerUnderTest::Ready("unanswered 1"));
    client.Send(WorkerUnderTest::Ready("unanswered 2"));
  };
  ASSERT_TRUE(worker.Start().ok());
  EXPECT_EQ(coordinator.messages.Pop().hello().epoch(), 1u);
  for (int restart = 0; restart < 3; ++restart) {
    coordinator.Kill();
    // Ticks while no server listens; messages sent now are dropped.
    ASSERT_TRUE(worker.SeesTicks(5));
    worker->Send(WorkerUnderTest::Ready("dropped"));
    ASSERT_TRUE(coordinator.Listen());
    bool in_time = false;
    const int hellos = worker.attachments.Pop(&in_time);
    ASSERT_TRUE(in_time);
    const v1::WorkerMessage hello = coordinator.messages.Pop();
    EXPECT_EQ(hello.hello().epoch(), static_cast<uint64_t>(hellos));
    EXPECT_EQ(coordinator.messages.Pop().ready().name(), "unanswered 1");
    EXPECT_EQ(coordinator.messages.Pop().ready().name(), "unanswered 2");
    worker->Send(WorkerUnderTest::Ready("new"));
    EXPECT_EQ(coordinator.messages.Pop().ready().name(), "new");
  }
  EXPECT_EQ(worker.ends.size(), 0u);
  EXPECT_EQ(coordinator.joins.size(), 1u);
}

TEST(CoordinatorReattachTest, WhatOthersSendBeforeTheResendingIsNotSentTwice) {
  ScriptedCoordinator coordinator;
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  worker.resend = [](CoordinatorClient& client) {
    // Another thread notes a message as unanswered and sends it just before this one takes the lock...
    std::thread([&client] { client.Send(WorkerUnderTest::Ready("noted before")); }).join();
    client.Send(WorkerUnderTest::Ready("noted before"));
    // ... and a next one just after.
    std::thread([&client] { client.Send(WorkerUnderTest::Ready("noted after")); }).join();
  };
  ASSERT_TRUE(worker.Start().ok());
  EXPECT_TRUE(coordinator.messages.Pop().has_hello());
  coordinator.Kill();
  ASSERT_TRUE(coordinator.Listen());
  EXPECT_TRUE(coordinator.messages.Pop().has_hello());
  EXPECT_EQ(coordinator.messages.Pop().ready().name(), "noted before");
  EXPECT_EQ(coordinator.messages.Pop().ready().name(), "noted after");
  worker->Send(WorkerUnderTest::Ready("last"));
  EXPECT_EQ(coordinator.messages.Pop().ready().name(), "last");
}

TEST(CoordinatorReattachTest, ACoordinatorThatForgotTheWorkerIsJoinedAgain) {
  ScriptedCoordinator coordinator;
  std::atomic<int> streams = 0;
  coordinator.on_attach = [&](ScriptedCoordinator::Stream* stream) {
    if (++streams <= 2) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no join of worker 00ff is known");
    return coordinator.ReadAll(stream);
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  bool in_time = false;
  EXPECT_TRUE(coordinator.messages.Pop(&in_time).has_hello());
  EXPECT_TRUE(in_time);
  EXPECT_EQ(streams, 3);
  EXPECT_EQ(coordinator.joins.size(), 3u);
  EXPECT_EQ(worker.ends.size(), 0u);
}

TEST(CoordinatorReattachTest, AWorkerThatStaysUnknownGivesUp) {
  ScriptedCoordinator coordinator;
  coordinator.on_attach = [&](ScriptedCoordinator::Stream*) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no join of worker 00ff is known");
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  worker.options.give_up_after = absl::Milliseconds(200);
  ASSERT_TRUE(worker.Start().ok());
  const absl::Status status = worker.ends.Pop();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), absl::StrCat("coordinator ", coordinator.address(),
                                           " has not known this worker for 200ms: no join of worker 00ff is known"));
}

TEST(CoordinatorReattachTest, ACoordinatorThatStaysAwayIsNamed) {
  ScriptedCoordinator coordinator;
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  worker.options.give_up_after = absl::Milliseconds(200);
  ASSERT_TRUE(worker.Start().ok());
  EXPECT_TRUE(coordinator.messages.Pop().has_hello());
  coordinator.Kill();
  const absl::Status status = worker.ends.Pop();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StartsWith(
      status.message(), absl::StrCat("coordinator ", coordinator.address(), " has been unreachable for 200ms: ")))
      << status;
  // Nothing follows the end, but the control thread still serves.
  absl::Notification served;
  worker->Post([&] { served.Notify(); });
  EXPECT_TRUE(served.WaitForNotificationWithTimeout(kBound));
  const int ticks = worker.ticks;
  absl::Notification again;
  worker->Post([&] { again.Notify(); });
  EXPECT_TRUE(again.WaitForNotificationWithTimeout(kBound));
  EXPECT_EQ(worker.ticks, ticks);
  EXPECT_EQ(worker.ends.size(), 0u);
  worker->Leave({}, kBound);
}

class FinalErrorTest : public testing::TestWithParam<grpc::StatusCode> {};

TEST_P(FinalErrorTest, EndsTheWorkerOnceWithTheReason) {
  ScriptedCoordinator coordinator;
  std::atomic<int> streams = 0;
  coordinator.on_attach = [&](ScriptedCoordinator::Stream* stream) {
    ++streams;
    v1::WorkerMessage hello;
    stream->Read(&hello);
    v1::CoordinatorMessage ended;
    ended.mutable_epoch_ended()->set_reason("worker 1 died");
    stream->Write(ended);
    return grpc::Status(GetParam(), "epoch 4 ended: worker 1 died");
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  bool in_time = false;
  const absl::Status status = worker.ends.Pop(&in_time);
  ASSERT_TRUE(in_time);
  EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(GetParam()));
  EXPECT_TRUE(absl::StrContains(status.message(), "epoch 4 ended: worker 1 died")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), coordinator.address())) << status;
  EXPECT_EQ(worker.messages.Pop().epoch_ended().reason(), "worker 1 died");
  worker->Send(WorkerUnderTest::Ready("after the end"));
  worker.Destroy();
  EXPECT_EQ(streams, 1);
  EXPECT_EQ(worker.ends.size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Codes, FinalErrorTest,
                         testing::Values(grpc::StatusCode::ABORTED, grpc::StatusCode::PERMISSION_DENIED,
                                         grpc::StatusCode::UNAUTHENTICATED, grpc::StatusCode::INVALID_ARGUMENT,
                                         grpc::StatusCode::DEADLINE_EXCEEDED, grpc::StatusCode::RESOURCE_EXHAUSTED,
                                         grpc::StatusCode::FAILED_PRECONDITION));

class PassingErrorTest : public testing::TestWithParam<grpc::StatusCode> {};

TEST_P(PassingErrorTest, OpensTheStreamAnew) {
  ScriptedCoordinator coordinator;
  std::atomic<int> streams = 0;
  coordinator.on_attach = [&](ScriptedCoordinator::Stream* stream) {
    if (++streams == 1) return grpc::Status(GetParam(), "for a moment");
    return coordinator.ReadAll(stream);
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  bool in_time = false;
  worker.attachments.Pop(&in_time);
  EXPECT_TRUE(in_time);
  EXPECT_TRUE(coordinator.messages.Pop().has_hello());
  EXPECT_EQ(worker.ends.size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Codes, PassingErrorTest,
                         testing::Values(grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::CANCELLED,
                                         grpc::StatusCode::INTERNAL, grpc::StatusCode::UNKNOWN));

TEST(CoordinatorReattachTest, AStreamForWhichThereIsNoRoomIsOpenedAnew) {
  const absl::Status full = WithRetryDelay(absl::ResourceExhaustedError("it does not read"), absl::Milliseconds(200));
  ScriptedCoordinator coordinator;
  std::atomic<int> streams = 0;
  coordinator.on_attach = [&](ScriptedCoordinator::Stream* stream) {
    if (++streams == 1) return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", ErrorDetailsOf(full));
    return coordinator.ReadAll(stream);
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  bool in_time = false;
  worker.attachments.Pop(&in_time);
  EXPECT_TRUE(in_time);
  EXPECT_TRUE(coordinator.messages.Pop().has_hello());
  EXPECT_EQ(worker.ends.size(), 0u);
}

// gRPC at a coordinator without memory ends anybody's streams.
TEST(CoordinatorReattachTest, AStreamThatGrpcHasShedIsOpenedAnewAndWhatIsUnansweredIsSentAgain) {
  ScriptedCoordinator coordinator;
  std::atomic<int> streams = 0;
  coordinator.on_attach = [&](ScriptedCoordinator::Stream* stream) {
    if (++streams <= 2)
      return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "Received RST_STREAM with error code 11");
    return coordinator.ReadAll(stream);
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  worker.resend = [](CoordinatorClient& client) { client.Send(WorkerUnderTest::Ready("unanswered")); };
  ASSERT_TRUE(worker.Start().ok());
  bool in_time = false;
  EXPECT_TRUE(coordinator.messages.Pop(&in_time).has_hello());
  ASSERT_TRUE(in_time);
  EXPECT_EQ(coordinator.messages.Pop().ready().name(), "unanswered");
  worker->Send(WorkerUnderTest::Ready("new"));
  EXPECT_EQ(coordinator.messages.Pop().ready().name(), "new");
  EXPECT_EQ(streams, 3);
  EXPECT_EQ(coordinator.joins.size(), 1u);
  EXPECT_EQ(worker.ends.size(), 0u);
}

TEST(CoordinatorReattachTest, AWorkerWhoseStreamStaysShedGivesUp) {
  ScriptedCoordinator coordinator;
  coordinator.on_attach = [](ScriptedCoordinator::Stream*) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "Received RST_STREAM with error code 11");
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  worker.options.give_up_after = absl::Milliseconds(200);
  ASSERT_TRUE(worker.Start().ok());
  EXPECT_EQ(worker.ends.Pop(), absl::ResourceExhaustedError(absl::StrCat(
                                   "coordinator ", coordinator.address(),
                                   " has no memory for this call now: Received RST_STREAM with error code 11")));
}

TEST(CoordinatorReattachTest, AMarkedRefusalEndsTheWorkerAtOnceWhateverItsWords) {
  const std::string text = "job RST_STREAM: rank 0 waits for other ranks with 1 group request; 1 is the most";
  ScriptedCoordinator coordinator;
  std::atomic<int> streams = 0;
  coordinator.on_attach = [&](ScriptedCoordinator::Stream*) {
    ++streams;
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, text, ErrorDetailsOf(absl::ResourceExhaustedError(text)));
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  EXPECT_EQ(worker.ends.Pop(), absl::ResourceExhaustedError(absl::StrCat("coordinator ", coordinator.address(),
                                                                         " ended this worker's stream: ", text)));
  EXPECT_EQ(streams, 1);
}

TEST(CoordinatorReattachTest, AStreamClosedInOrderEndsTheWorkerWithOk) {
  ScriptedCoordinator coordinator;
  coordinator.on_attach = [](ScriptedCoordinator::Stream*) { return grpc::Status::OK; };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  bool in_time = false;
  EXPECT_TRUE(worker.ends.Pop(&in_time).ok());
  EXPECT_TRUE(in_time);
}

TEST(CoordinatorReattachTest, LeaveWaitsForTheNextReattachment) {
  ScriptedCoordinator coordinator;
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  EXPECT_TRUE(coordinator.messages.Pop().has_hello());
  coordinator.Kill();
  ASSERT_TRUE(worker.SeesTicks(2));
  std::thread leaving([&] { worker->Leave({}, kBound); });
  ASSERT_TRUE(worker.SeesTicks(2));
  EXPECT_TRUE(coordinator.Listen());
  EXPECT_TRUE(coordinator.messages.Pop().has_hello());
  EXPECT_TRUE(coordinator.messages.Pop().has_leave());
  leaving.join();
  EXPECT_EQ(worker.ends.size(), 0u);
}

TEST(CoordinatorReattachTest, ADetachedWorkerCanBeDestroyed) {
  ScriptedCoordinator coordinator;
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  EXPECT_TRUE(coordinator.messages.Pop().has_hello());
  coordinator.Kill();
  ASSERT_TRUE(worker.SeesTicks(2));
  const absl::Time begin = absl::Now();
  worker.Destroy();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
  EXPECT_EQ(worker.ends.size(), 0u);
}

TEST(CoordinatorReattachTest, AWorkerWhoseCoordinatorIsDeafCanBeDestroyed) {
  ScriptedCoordinator coordinator;
  absl::Notification over;
  coordinator.on_attach = [&](ScriptedCoordinator::Stream*) {
    over.WaitForNotificationWithTimeout(3 * kBound);
    return grpc::Status::OK;
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  for (int i = 0; i < 10; ++i) worker->Send(WorkerUnderTest::Ready(std::string(1 << 20, 'x')));
  ASSERT_TRUE(worker.SeesTicks(2));
  const absl::Time begin = absl::Now();
  worker.Destroy();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
  over.Notify();
}

TEST(CoordinatorReattachTest, AWorkerWhoseCoordinatorTakesConnectionsAndSaysNothingCanBeDestroyed) {
  ScriptedCoordinator coordinator;
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  EXPECT_TRUE(coordinator.messages.Pop().has_hello());
  coordinator.Kill();
  const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  setsockopt(silent, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(std::stoi(coordinator.address().substr(coordinator.address().find(':') + 1)));
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(silent, 16), 0);
  const int accepted = accept4(silent, nullptr, nullptr, SOCK_CLOEXEC);
  EXPECT_GE(accepted, 0);
  ASSERT_TRUE(worker.SeesTicks(2));
  const absl::Time begin = absl::Now();
  worker.Destroy();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
  close(accepted);
  close(silent);
}

}  // namespace
}  // namespace farandole
