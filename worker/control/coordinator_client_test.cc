// How a worker joins, speaks, calls and leaves, with a real gRPC server as its peer.
#include "worker/control/coordinator_client.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/retry/retry_delay.h"
#include "base/steady_time.h"
#include "gtest/gtest.h"
#include "worker/control/scripted_coordinator.h"
#include "worker/control/worker_under_test.h"

namespace farandole {
namespace {

constexpr absl::Duration kBound = absl::Seconds(10);

TEST(CoordinatorClientTest, JoinsWithItsTokenAndSaysHelloFirst) {
  ScriptedCoordinator coordinator;
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  EXPECT_EQ(worker->join_response().heartbeat_interval_ms(), 500u);
  EXPECT_EQ(coordinator.tokens.Pop(), "Bearer secret");
  EXPECT_EQ(coordinator.joins.Pop().job(), "mnist");
  EXPECT_EQ(coordinator.messages.Pop().hello().incarnation(), "00ff");
  EXPECT_EQ(worker.attachments.size(), 0u);
}

TEST(CoordinatorClientTest, TicksComeAsOftenAsTheCoordinatorWantsToHearOfItsWorkers) {
  ScriptedCoordinator coordinator;
  coordinator.on_join = [](const v1::JoinRequest&, v1::JoinResponse* response) {
    response->set_heartbeat_interval_ms(15);
    return grpc::Status::OK;
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest often(coordinator.address());
  often.longest_tick = absl::Hours(1);
  ASSERT_TRUE(often.Start().ok());
  EXPECT_EQ(often->tick_interval(), absl::Milliseconds(15));
  EXPECT_TRUE(often.SeesTicks(3));
  WorkerUnderTest more_often(coordinator.address());
  more_often.longest_tick = absl::Milliseconds(10);
  ASSERT_TRUE(more_often.Start().ok());
  EXPECT_EQ(more_often->tick_interval(), absl::Milliseconds(10));
}

TEST(CoordinatorClientTest, MessagesArriveInOrderInBothDirections) {
  ScriptedCoordinator coordinator;
  coordinator.on_attach = [&](ScriptedCoordinator::Stream* stream) {
    for (int i = 0; i < 500; ++i) {
      v1::CoordinatorMessage message;
      message.mutable_waiting()->set_sentence(absl::StrCat(i));
      stream->Write(message);
    }
    return coordinator.ReadAll(stream);
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  // The first stream also carries messages sent while it was being opened.
  for (int i = 0; i < 500; ++i) worker->Send(WorkerUnderTest::Ready(absl::StrCat(i)));
  EXPECT_TRUE(coordinator.messages.Pop().has_hello());
  for (int i = 0; i < 500; ++i) ASSERT_EQ(coordinator.messages.Pop().ready().name(), absl::StrCat(i));
  for (int i = 0; i < 500; ++i) ASSERT_EQ(worker.messages.Pop().waiting().sentence(), absl::StrCat(i));
}

TEST(CoordinatorClientTest, AWrongTokenIsNamedWithItsFile) {
  ScriptedCoordinator coordinator;
  coordinator.on_join = [](const v1::JoinRequest&, v1::JoinResponse*) {
    return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "the token is not known");
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  worker.options.token_origin = "/run/farandole/token";
  const absl::Status status = worker.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(status.message(), absl::StrCat("coordinator ", coordinator.address(),
                                           " refused the token in /run/farandole/token: the token is not known"));
}

TEST(CoordinatorClientTest, ATokenThatNoHeaderCanCarryIsRefusedBeforeItIsSent) {
  WorkerUnderTest worker("127.0.0.1:7070");
  worker.options.token = "abc\n";
  const absl::Status status = worker.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "the token for coordinator 127.0.0.1:7070 has the byte 0x0a at position 3; a token is visible ASCII");
}

TEST(CoordinatorClientTest, AWorkersTokenIsNotSentToAnotherHostWithoutTls) {
  WorkerUnderTest worker("unixhead:7070");
  worker.join.set_join_timeout_ms(300);
  const absl::Status status = worker.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(status.message(), "coordinator unixhead:7070 is not on this host, and no CA file"))
      << status;
}

TEST(CoordinatorClientTest, ARefusedConnectionIsNamedAfterTheJoinTimeout) {
  ScriptedCoordinator coordinator;
  WorkerUnderTest worker(coordinator.address());
  worker.join.set_join_timeout_ms(300);
  const absl::Status status = worker.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(),
            absl::StrCat("coordinator ", coordinator.address(), " has been unreachable for 300ms: Connection refused"));
}

// Collects the sentences of a Start that never reaches a coordinator at `address`.
std::vector<std::string> WordsOfWaitingFor(const std::string& address, uint64_t patience_ms,
                                           const std::string& token = "secret") {
  WorkerUnderTest worker(address);
  worker.options.token = token;
  worker.join.set_join_timeout_ms(patience_ms);
  worker.options.first_word = absl::Milliseconds(300);
  std::vector<std::string> words;
  worker.options.on_unreached = [&words](const std::string& sentence) { words.push_back(sentence); };
  EXPECT_EQ(worker.Start().code(), absl::StatusCode::kUnavailable);
  return words;
}

TEST(CoordinatorClientTest, WhileNobodyIsReachedItSaysSoAtDoublingDistances) {
  const ScriptedCoordinator coordinator;
  const std::vector<std::string> words = WordsOfWaitingFor(coordinator.address(), 4'000);
  // After 300, 600, 1,200 and 2,400 ms, until the next attempt would come too late.
  ASSERT_GE(words.size(), size_t{2});
  EXPECT_LE(words.size(), size_t{4});
  for (const std::string& sentence : words) {
    EXPECT_TRUE(
        absl::StartsWith(sentence, absl::StrCat("coordinator ", coordinator.address(), " has not been reached for ")))
        << sentence;
    EXPECT_TRUE(absl::StrContains(sentence, ": Connection refused; this worker keeps trying for ")) << sentence;
  }
}

TEST(CoordinatorClientTest, APeerThatNeverAnswersIsSaidToBeSilent) {
  // The system accepts the connection; no program reads from it.
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<struct sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 16), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<struct sockaddr*>(&address), &size), 0);
  const std::vector<std::string> words = WordsOfWaitingFor(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)), 1'500);
  ASSERT_FALSE(words.empty());
  EXPECT_TRUE(absl::StrContains(words[0], ": it does not answer; this worker keeps trying for ")) << words[0];
  close(listener);
}

TEST(CoordinatorClientTest, ANameThatIsNoHostsIsNamed) {
  const std::vector<std::string> words = WordsOfWaitingFor("no-such-host.invalid:7070", 4'000, "");
  ASSERT_FALSE(words.empty());
  EXPECT_TRUE(absl::StrContains(words.back(), "coordinator no-such-host.invalid:7070 has not been reached"))
      << words.back();
  EXPECT_TRUE(absl::StrContains(words.back(), "DNS resolution failed")) << words.back();
}

TEST(CoordinatorClientTest, AnotherProtocolVersionIsNamed) {
  ScriptedCoordinator coordinator;
  coordinator.on_join = [](const v1::JoinRequest&, v1::JoinResponse*) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "the worker speaks protocol 1, this coordinator 2");
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  const absl::Status status = worker.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            absl::StrCat("coordinator ", coordinator.address(),
                         " refused the join of job mnist: the worker speaks protocol 1, this coordinator 2"));
}

TEST(CoordinatorClientTest, AJoinIsTriedAgainWhileTheCoordinatorStarts) {
  ScriptedCoordinator coordinator;
  std::atomic<int> asked = 0;
  coordinator.on_join = [&](const v1::JoinRequest&, v1::JoinResponse*) {
    return ++asked < 3 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the coordinator starts") : grpc::Status::OK;
  };
  WorkerUnderTest worker(coordinator.address());
  absl::Status started = absl::UnknownError("not yet");
  std::thread starting([&] { started = worker.Start(); });
  EXPECT_TRUE(coordinator.Listen());
  starting.join();
  EXPECT_TRUE(started.ok()) << started;
  EXPECT_EQ(asked, 3);
}

grpc::Status Full() {
  const absl::Status status =
      WithRetryDelay(absl::ResourceExhaustedError("the tenant is full"), absl::Milliseconds(300));
  return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the tenant is full", ErrorDetailsOf(status));
}

TEST(CoordinatorClientTest, AJoinForWhichThereIsNoRoomWaitsAsLongAsTheCoordinatorSays) {
  ScriptedCoordinator coordinator;
  std::atomic<int> asked = 0;
  coordinator.on_join = [&](const v1::JoinRequest&, v1::JoinResponse*) {
    return ++asked == 1 ? Full() : grpc::Status::OK;
  };
  EXPECT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  const absl::Time began = SteadyNow();
  const absl::Status started = worker.Start();
  EXPECT_TRUE(started.ok()) << started;
  EXPECT_EQ(asked, 2);
  EXPECT_GE(SteadyNow() - began, absl::Milliseconds(300));
}

TEST(CoordinatorClientTest, AJoinAndACallThatGrpcHasShedAreMadeAgain) {
  ScriptedCoordinator coordinator;
  const grpc::Status shed(grpc::StatusCode::RESOURCE_EXHAUSTED, "Received RST_STREAM with error code 11");
  std::atomic<int> joins = 0, begins = 0;
  coordinator.on_join = [&](const v1::JoinRequest&, v1::JoinResponse*) {
    return ++joins < 3 ? shed : grpc::Status::OK;
  };
  coordinator.on_begin = [&](const v1::BeginCheckpointRequest&, v1::BeginCheckpointResponse*) {
    return ++begins < 3 ? shed : grpc::Status::OK;
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  const absl::Status started = worker.Start();
  ASSERT_TRUE(started.ok()) << started;
  EXPECT_EQ(joins, 3);
  const absl::StatusOr<v1::BeginCheckpointResponse> begun = worker->BeginCheckpoint(v1::BeginCheckpointRequest());
  EXPECT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begins, 3);
}

TEST(CoordinatorClientTest, AProcessIsDismissedByWordsAndACallThatWasCutOffIsRepeated) {
  ScriptedCoordinator coordinator;
  std::atomic<int> asked = 0;
  coordinator.on_join = [&](const v1::JoinRequest&, v1::JoinResponse*) {
    const char* const text = ++asked == 1 ? "CANCELLED" : "job mnist has finished";
    return grpc::Status(grpc::StatusCode::CANCELLED, asked == 2 ? "" : text);
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  const absl::Status status = worker.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(status.message(), "job mnist has finished");
  EXPECT_EQ(asked, 3);
}

TEST(CoordinatorClientTest, APatienceGoesBeforeTheJoinTimeout) {
  ScriptedCoordinator coordinator;
  WorkerUnderTest worker(coordinator.address());
  worker.join.set_join_timeout_ms(600'000);
  worker.options.join_patience = absl::Milliseconds(300);
  const absl::Status status = worker.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "has been unreachable for 300ms")) << status;
}

TEST(CoordinatorClientTest, AStartCanBeInterrupted) {
  ScriptedCoordinator coordinator;
  WorkerUnderTest worker(coordinator.address());
  worker.join.set_join_timeout_ms(600'000);
  int asked = 0;
  worker.options.is_interrupted = [&] { return ++asked >= 3; };
  const absl::Status status = worker.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(), "the join of job mnist was interrupted");
}

TEST(CoordinatorClientTest, TheEndOfAPeerProcessIsSeenOnce) {
  ScriptedCoordinator coordinator;
  ASSERT_TRUE(coordinator.Listen());
  int release[2];
  ASSERT_EQ(pipe2(release, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(release[1]);
    char byte = 0;
    _exit(read(release[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(release[0]);
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  std::atomic<int> exits = 0;
  absl::Notification exited;
  ASSERT_TRUE(worker
                  ->WatchProcess(child,
                                 [&] {
                                   ++exits;
                                   exited.Notify();
                                 })
                  .ok());
  EXPECT_TRUE(worker.SeesTicks(2));
  EXPECT_EQ(exits, 0);
  close(release[1]);
  EXPECT_TRUE(exited.WaitForNotificationWithTimeout(kBound));
  EXPECT_TRUE(worker.SeesTicks(2));
  EXPECT_EQ(exits, 1);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

std::set<int> OpenDescriptors() {
  std::set<int> open;
  DIR* directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    const int fd = atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != dirfd(directory)) open.insert(fd);
  }
  closedir(directory);
  return open;
}

TEST(CoordinatorClientTest, NoDescriptorSurvivesAnExec) {
  ScriptedCoordinator coordinator;
  ASSERT_TRUE(coordinator.Listen());
  const std::set<int> before = OpenDescriptors();
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  EXPECT_TRUE(coordinator.messages.Pop().has_hello());
  for (const int fd : OpenDescriptors()) {
    if (before.count(fd) != 0) continue;
    EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC) << "descriptor " << fd;
  }
}

TEST(CoordinatorClientTest, ACheckpointRequestIsRepeatedUnderOneKey) {
  ScriptedCoordinator coordinator;
  Inbox<std::string> keys;
  coordinator.on_begin = [&](const v1::BeginCheckpointRequest& request, v1::BeginCheckpointResponse* response) {
    keys.Push(request.idempotency_key());
    if (keys.size() < 3) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    response->set_token(7);
    return grpc::Status::OK;
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  const absl::StatusOr<v1::BeginCheckpointResponse> begun = worker->BeginCheckpoint(v1::BeginCheckpointRequest());
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->token(), 7u);
  const std::string key = keys.Pop();
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(keys.Pop(), key);
  EXPECT_EQ(keys.Pop(), key);
}

TEST(CoordinatorClientTest, ACheckpointForWhichThereIsNoRoomWaitsAsLongAsTheCoordinatorSays) {
  ScriptedCoordinator coordinator;
  std::atomic<int> asked = 0;
  coordinator.on_begin = [&](const v1::BeginCheckpointRequest&, v1::BeginCheckpointResponse*) {
    return ++asked == 1 ? Full() : grpc::Status::OK;
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  const absl::Time began = SteadyNow();
  const absl::Status begun = worker->BeginCheckpoint(v1::BeginCheckpointRequest()).status();
  EXPECT_TRUE(begun.ok()) << begun;
  EXPECT_EQ(asked, 2);
  EXPECT_GE(SteadyNow() - began, absl::Milliseconds(300));
}

TEST(CoordinatorClientTest, ARefusedCallSaysWhoRefusedIt) {
  ScriptedCoordinator coordinator;
  coordinator.on_find = [](const v1::FindCheckpointRequest&, v1::FindCheckpointResponse*) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "job mnist has no checkpoint");
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  const absl::Status status = worker->FindCheckpoint(v1::FindCheckpointRequest()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), absl::StrCat("coordinator ", coordinator.address(),
                                           " refused to find a checkpoint: job mnist has no checkpoint"));
}

TEST(CoordinatorClientTest, LeaveIsTheLastMessageAndEndsWithoutACallback) {
  ScriptedCoordinator coordinator;
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  worker->Send(WorkerUnderTest::Ready("grad/0"));
  v1::Leave leave;
  leave.set_epoch(3);
  leave.set_reason("done");
  worker->Leave(leave, kBound);
  worker->Send(WorkerUnderTest::Ready("too late"));
  EXPECT_TRUE(coordinator.messages.Pop().has_hello());
  EXPECT_EQ(coordinator.messages.Pop().ready().name(), "grad/0");
  const v1::WorkerMessage last = coordinator.messages.Pop();
  EXPECT_EQ(last.leave().epoch(), 3u);
  EXPECT_EQ(last.leave().reason(), "done");
  EXPECT_EQ(coordinator.messages.size(), 0u);
  worker.Destroy();
  EXPECT_EQ(worker.ends.size(), 0u);
}

TEST(CoordinatorClientTest, LeaveEndsAtItsTimeoutWhereNobodyAnswers) {
  ScriptedCoordinator coordinator;
  absl::Notification over;
  coordinator.on_attach = [&](ScriptedCoordinator::Stream*) {
    over.WaitForNotificationWithTimeout(kBound);
    return grpc::Status::OK;
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  const absl::Time begin = absl::Now();
  worker->Leave({}, absl::Milliseconds(100));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(100));
  EXPECT_LT(absl::Now() - begin, kBound / 2);
  over.Notify();
}

TEST(CoordinatorClientTest, AnUnreadFloodEndsWithTheBound) {
  ScriptedCoordinator coordinator;
  absl::Notification over;
  coordinator.on_attach = [&](ScriptedCoordinator::Stream*) {
    over.WaitForNotificationWithTimeout(3 * kBound);
    return grpc::Status::OK;
  };
  ASSERT_TRUE(coordinator.Listen());
  WorkerUnderTest worker(coordinator.address());
  ASSERT_TRUE(worker.Start().ok());
  const v1::WorkerMessage large = WorkerUnderTest::Ready(std::string(1 << 20, 'x'));
  for (int i = 0; i < 100; ++i) worker->Send(large);
  bool in_time = false;
  const absl::Status status = worker.ends.Pop(&in_time);
  EXPECT_TRUE(in_time);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "does not take this worker's messages")) << status;
  over.Notify();
}

}  // namespace
}  // namespace farandole
