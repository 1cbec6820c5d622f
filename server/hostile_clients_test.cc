// Clients without a token, and the most that they can cost a coordinator: memory, connections, descriptors, time.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/testing/raw_client.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

constexpr char kJoin[] = "/farandole.v1.WorkerService/Join";
constexpr char kAttach[] = "/farandole.v1.WorkerService/Attach";
constexpr char kReflect[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
constexpr char kHealth[] = "/grpc.health.v1.Health/";
constexpr char kListJobs[] = "/farandole.v1.MonitorService/ListJobs";
// As many as one address may have, with as many calls as a connection may.
constexpr size_t kConnections = 250;
constexpr size_t kCalls = 128;
constexpr size_t kBigMessage = 15 << 20;
constexpr absl::Duration kQuiet = absl::Milliseconds(300);

double ResidentMebibytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

class HostileClientsTest : public CoordinatorFixture {
 protected:
  std::vector<std::unique_ptr<RawClient>> Connect(size_t count) const {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (size_t i = 0; i < count; ++i) clients.push_back(std::make_unique<RawClient>(coordinator_->address()));
    return clients;
  }

  // Begins as many calls as one address may, whose messages never come. Keeps their connections.
  std::vector<std::unique_ptr<RawClient>> BeginEverywhere(const std::string& method, const std::string& token,
                                                          size_t connections = kConnections) const {
    auto clients = Connect(connections);
    for (const auto& client : clients) {
      client->Greet();
      for (size_t i = 0; i < kCalls; ++i) client->Begin(method, token, 1);
    }
    for (const auto& client : clients) client->Pump(absl::Milliseconds(1));
    clients.back()->Pump(kQuiet);
    return clients;
  }

  // Whether a client with a token is answered within `limit`.
  void ExpectServedWithin(absl::Duration limit) const {
    const absl::Time begin = SteadyNow();
    const absl::Status listed = Client().ListJobs().status();
    EXPECT_TRUE(listed.ok()) << listed;
    EXPECT_LT(SteadyNow() - begin, limit);
  }
};

TEST_F(HostileClientsTest, CallsWithoutATokenAreRefusedBeforeTheirMessage) {
  Start();
  ExpectServedWithin(absl::Seconds(10));
  for (const size_t calls : {20, 64}) {
    const double before = ResidentMebibytes();
    RawClient one(coordinator_->address());
    one.Greet();
    for (size_t i = 0; i < calls; ++i) one.Begin(kJoin, i % 2 == 0 ? "" : "wrong", kBigMessage);
    one.Pump(kQuiet);
    EXPECT_EQ(one.calls(), 0u) << "of " << calls;
    const auto many = Connect(calls);
    for (const auto& client : many) {
      client->Greet();
      client->Begin(kJoin, "", kBigMessage);
    }
    for (const auto& client : many) client->Pump(kQuiet / 10);
    EXPECT_LT(ResidentMebibytes() - before, 48) << calls << " calls of 15 MiB";
  }
}

TEST_F(HostileClientsTest, CallsOfHealthWithoutAMessageCostABoundedMemory) {
  Start();
  ExpectServedWithin(absl::Seconds(10));
  for (const char* method : {"Check", "Watch"}) {
    const double before = ResidentMebibytes();
    BeginEverywhere(absl::StrCat(kHealth, method), "");
    EXPECT_LT(ResidentMebibytes() - before, 64) << method;
    ExpectServedWithin(absl::Seconds(10));
  }
}

TEST_F(HostileClientsTest, CallsOfATokenWithoutAMessageCostABoundedMemory) {
  Start();
  const std::string noisy = MakeTenant("noisy");
  const double before = ResidentMebibytes();
  const auto held = BeginEverywhere(kListJobs, noisy);
  EXPECT_LT(ResidentMebibytes() - before, 96);
}

// More than there are places. Fewer than above, so that their headers are read when others are served.
TEST_F(HostileClientsTest, CallsOfATokenWithoutAMessageTakeNobodyElsesPlace) {
  Start();
  const auto worker = Train("train", 1);
  const std::string noisy = MakeTenant("noisy");
  const auto held = BeginEverywhere(kListJobs, noisy, 32);
  ExpectServedWithin(absl::Seconds(10));
  AgreeOn("grad/0", worker);
  Leave(worker);
}

// Four times as much as gRPC may hold.
TEST_F(HostileClientsTest, StreamsWithBegunMessagesCostABoundedMemoryAndNobodyElsesStream) {
  options_.grpc_bytes = 128 << 20;
  Start();
  const auto worker = Train("train", 1);
  const std::string noisy = MakeTenant("noisy");
  constexpr uint32_t kWorkers = 34;
  std::vector<std::unique_ptr<TestWorker>> noise;
  const auto clients = Connect(kWorkers);
  for (uint32_t i = 0; i < kWorkers; ++i) {
    noise.push_back(Worker("noise", i, noisy));
    ASSERT_TRUE(noise.back()->Join(kWorkers).ok());
    clients[i]->Greet();
    clients[i]->OpenStream(kAttach, noisy, noise.back()->HelloFor(0).SerializeAsString());
    clients[i]->Pump(kQuiet / 10);
    EXPECT_EQ(clients[i]->calls(), 1u) << "stream " << i;
  }
  const double before = ResidentMebibytes();
  for (const auto& client : clients) {
    client->BeginMessage(kBigMessage);
    client->Pump(kQuiet / 10);
    EXPECT_LT(ResidentMebibytes() - before, 192) << "all together send 510 MiB";
  }
  clients.back()->Pump(absl::Seconds(2));
  size_t ended = 0;
  for (const auto& client : clients) ended += client->IsClosedWithin(absl::Milliseconds(1)) ? 1 : 0;
  EXPECT_GE(ended, kWorkers - 5) << "each has sent 15 MiB, and 64 may be held";
  AgreeOn("grad/0", worker);
  Leave(worker);
}

TEST_F(HostileClientsTest, AMessageThatIsLongerThanAnyMayBeIsNotTakenIn) {
  options_.grpc_bytes = 128 << 20;
  Start();
  const auto worker = Train("train", 1);
  const std::string noisy = MakeTenant("noisy");
  const double before = ResidentMebibytes();
  RawClient client(coordinator_->address());
  client.Greet();
  client.Begin(kListJobs, noisy, size_t{1} << 30);
  client.Pump(absl::Seconds(2));
  EXPECT_FALSE(client.is_open());
  EXPECT_LT(client.sent_bytes() >> 20, 512u) << "MiB";
  EXPECT_LT(ResidentMebibytes() - before, 192);
  AgreeOn("grad/0", worker);
  Leave(worker);
}

TEST_F(HostileClientsTest, HeadersWithoutAnEndCostABoundedMemory) {
  Start();
  ExpectServedWithin(absl::Seconds(10));
  const double before = ResidentMebibytes();
  for (int i = 0; i < 3; ++i) {
    RawClient client(coordinator_->address());
    client.Greet();
    const size_t sent = client.SendEndlessHeaders(kJoin, size_t{2} << 30);
    EXPECT_LT(sent >> 20, 512u) << "MiB; the connection is ended";
    EXPECT_LT(ResidentMebibytes() - before, 512) << "MiB";
  }
  ExpectServedWithin(absl::Seconds(10));
}

TEST_F(HostileClientsTest, HeadersWithoutAnEndOfATokenCostABoundedMemory) {
  options_.grpc_bytes = 128 << 20;
  Start();
  const std::string noisy = MakeTenant("noisy");
  const double before = ResidentMebibytes();
  for (const bool is_whole : {true, false}) {
    RawClient client(coordinator_->address());
    client.Greet();
    if (is_whole) client.Call(kListJobs, noisy, "");
    if (!is_whole) client.Begin(kListJobs, noisy, 1);
    client.Pump(kQuiet);
    ASSERT_TRUE(client.is_open());
    const size_t sent = client.SendEndlessHeaders(kJoin, size_t{2} << 30);
    EXPECT_LT(sent >> 20, 512u) << "MiB; the connection is ended";
    EXPECT_LT(ResidentMebibytes() - before, 512) << "MiB";
  }
  ExpectServedWithin(absl::Seconds(10));
}

TEST_F(HostileClientsTest, ReflectionIsForAdminTokens) {
  Start();
  RawClient client(coordinator_->address());
  client.Greet();
  client.Begin(kReflect, "", 64);
  client.Pump(kQuiet);
  EXPECT_EQ(client.calls(), 0u);
  client.Begin(kReflect, coordinator_->token(), 64);
  client.Pump(kQuiet);
  EXPECT_EQ(client.calls(), 1u) << "its message is awaited";
}

TEST_F(HostileClientsTest, ConnectionsWithoutATokenAreShort) {
  options_.token_deadline = absl::Seconds(1);
  Start();
  const auto silent = Connect(8);
  RawClient greeted(coordinator_->address());
  greeted.Greet();
  TestClient known = Client();
  EXPECT_TRUE(known.ListJobs().ok());
  const auto worker = Train("train", 1);
  for (const auto& client : silent) EXPECT_TRUE(client->IsClosedWithin(absl::Seconds(20)));
  EXPECT_TRUE(greeted.IsClosedWithin(absl::Seconds(20)));
  EXPECT_EQ(known.channel()->GetState(false), GRPC_CHANNEL_READY) << "a token was shown on it";
  AgreeOn("grad/0", worker);
  Leave(worker);
}

TEST_F(HostileClientsTest, SilentConnectionsTakeNoPlaceFromATokensHolder) {
  Start();
  const auto silent = Connect(600);
  ExpectServedWithin(absl::Seconds(5));
  const auto more = Connect(600);
  ExpectServedWithin(absl::Seconds(5));
  const auto worker = Train("train", 1);
  Leave(worker);
}

// Holds `count` connections in a process of its own until it is killed.
pid_t Flood(const std::string& address, size_t count, bool greets) {
  const pid_t child = fork();
  if (child != 0) return child;
  rlimit most = {};
  getrlimit(RLIMIT_NOFILE, &most);
  most.rlim_cur = most.rlim_max;
  setrlimit(RLIMIT_NOFILE, &most);
  std::vector<std::unique_ptr<RawClient>> held;
  for (size_t i = 0; i < count; ++i) {
    held.push_back(std::make_unique<RawClient>(address));
    if (greets && held.back()->is_open()) held.back()->Greet();
  }
  while (true) pause();
}

TEST_F(HostileClientsTest, AFloodOfConnectionsLeavesDescriptorsForTheStore) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 512;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  Start();
  const pid_t flood = Flood(coordinator_->address(), 2000, /*greets=*/true);
  ASSERT_GT(flood, 0);
  // The flood holds what it gets, and the last of its connections has waited for its turn.
  RawClient last(coordinator_->address());
  last.IsClosedWithin(absl::Seconds(2));
  std::vector<int> files;
  for (int i = 0; i < 64; ++i) files.push_back(dup(0));
  EXPECT_THAT(files, ::testing::Each(::testing::Ge(0))) << "the store would open as many";
  for (const int file : files) close(file);
  ExpectServedWithin(absl::Seconds(10));
  const auto worker = Train("train", 1);
  Leave(worker);
  kill(flood, SIGKILL);
  waitpid(flood, nullptr, 0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace farandole
