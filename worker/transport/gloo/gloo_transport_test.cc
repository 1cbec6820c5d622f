#include "worker/transport/gloo/gloo_transport.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "gtest/gtest.h"
#include "worker/collectives/schedule_operation.h"
#include "worker/collectives/start_collective.h"
#include "worker/transport/hosts/hosts_transport.h"
#include "worker/transport/tcp/test_hosts.h"
#include "worker/transport/testing/conformance.h"
#include "worker/transport/testing/conformance_run.h"

namespace farandole {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(30);

TransportSet MakeGlooSet(int size) {
  auto hosts = std::make_shared<TestHosts>(size);
  TransportSet set;
  for (int rank = 0; rank < size; ++rank) {
    set.transports.push_back(std::make_unique<GlooTransport>(rank, size, &hosts->port(rank), &hosts->bell(rank)));
    set.doorbells.push_back(&hosts->bell(rank));
  }
  set.foundation = std::move(hosts);
  return set;
}

INSTANTIATE_TEST_SUITE_P(Gloo, TransportConformanceTest, ::testing::ValuesIn(ConformanceCases({"Gloo", MakeGlooSet})),
                         ConformanceCaseName);

TEST(GlooAloneTest, ThreeRanksRunTheRingForLargeTensorsAndRecursiveDoublingForSmallOnes) {
  TransportSet set = MakeGlooSet(3);
  const Hosts hosts = Hosts::Apart(3);
  for (int rank = 0; rank < 3; ++rank) {
    set.transports[rank] = std::make_unique<HostsTransport>(hosts, rank, nullptr, std::move(set.transports[rank]),
                                                            [](int, const std::string&) {});
  }
  std::vector<ConformanceBatch> batches(2);
  for (ConformanceBatch& batch : batches) batch.ranks = {0, 1, 2};
  batches[0].counts = {1 << 10};
  batches[1].counts = {1 << 16};
  std::mutex mutex;
  std::map<int, std::vector<std::string>> executed;
  const StartOperation start = [&](Transport& transport, const Collective& collective, BufferPool& pool) {
    absl::StatusOr<std::unique_ptr<Operation>> started = StartCollective(collective, hosts, transport, pool);
    const auto* schedule = started.ok() ? dynamic_cast<const ScheduleOperation*>(started->get()) : nullptr;
    const std::lock_guard<std::mutex> lock(mutex);
    executed[transport.rank()].emplace_back(schedule == nullptr ? "none" : schedule->algorithm());
    return started;
  };
  ConformanceRun run(set, batches, start);
  const absl::Status status = run.Run();
  ASSERT_TRUE(status.ok()) << status;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(executed[rank], (std::vector<std::string>{"recursive doubling allreduce", "ring allreduce"})) << rank;
  }
  for (const auto& memory : run.memory()) {
    const absl::Status checked = memory->CheckEqualOnAllRanks();
    EXPECT_TRUE(checked.ok()) << checked;
  }
}

// Ranks 0 and 1, of which this thread is both.
class GlooTransportTest : public ::testing::Test {
 protected:
  GlooTransportTest() : hosts_(2) {
    for (int rank = 0; rank < 2; ++rank)
      transports_[rank] = std::make_unique<GlooTransport>(rank, 2, &hosts_.port(rank), &hosts_.bell(rank));
  }
  // Progress of both until `done`, or until one of them fails.
  template <typename Done>
  absl::Status DriveUntil(const Done& done) {
    const absl::Time deadline = SteadyNow() + kLimit;
    while (!done()) {
      if (SteadyNow() > deadline) return absl::DeadlineExceededError("nothing moves any more");
      for (const std::unique_ptr<GlooTransport>& transport : transports_) {
        if (transport == nullptr) continue;
        const absl::StatusOr<bool> moved = transport->Progress();
        if (!moved.ok()) return moved.status();
        if (!*moved) std::this_thread::yield();
      }
    }
    return absl::OkStatus();
  }

  TestHosts hosts_;
  std::unique_ptr<GlooTransport> transports_[2];
};

TEST_F(GlooTransportTest, TransfersThatMatchHaveEqualLengths) {
  std::string eight = "12345678";
  std::string nine(9, ' ');
  Transfer send = {1, eight.data(), eight.size()};
  Transfer receive = {0, nine.data(), nine.size()};
  transports_[0]->Send(&send);
  transports_[1]->Receive(&receive);
  EXPECT_EQ(DriveUntil([&] { return receive.complete; }),
            absl::InternalError("rank 0 sends 8 bytes to rank 1, which expects 9"));
  EXPECT_EQ(nine, std::string(9, ' '));
}

TEST_F(GlooTransportTest, EmptyTransfersTakeTheirTurn) {
  std::string byte = "x";
  std::string received = " ";
  Transfer sends[] = {{1, nullptr, 0}, {1, byte.data(), 1}, {1, nullptr, 0}};
  Transfer receives[] = {{0, nullptr, 0}, {0, received.data(), 1}, {0, nullptr, 0}};
  for (Transfer& receive : receives) transports_[1]->Receive(&receive);
  for (Transfer& send : sends) transports_[0]->Send(&send);
  const absl::Status driven = DriveUntil([&] { return receives[2].complete && sends[2].complete; });
  ASSERT_TRUE(driven.ok()) << driven;
  EXPECT_TRUE(receives[0].complete && receives[1].complete);
  EXPECT_EQ(received, "x");
}

TEST_F(GlooTransportTest, APeerThatEndsInTheMiddleOfATransferIsNamed) {
  std::string bytes(1 << 20, 'x');
  std::string in(1 << 20, ' ');
  Transfer sends[] = {{1, bytes.data(), bytes.size()}, {1, bytes.data(), 1}};
  Transfer receives[] = {{0, in.data(), in.size()}, {0, in.data(), in.size()}};
  for (Transfer& receive : receives) transports_[1]->Receive(&receive);
  transports_[0]->Send(&sends[0]);
  const absl::Status driven = DriveUntil([&] { return receives[0].complete; });
  ASSERT_TRUE(driven.ok()) << driven;
  EXPECT_EQ(in, bytes);
  transports_[0].reset();
  const absl::Status ended = DriveUntil([&] { return receives[1].complete; });
  EXPECT_EQ(ended.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(absl::StrContains(ended.message(), "rank 0 (pid 4700 on node-0)")) << ended;
}

TEST_F(GlooTransportTest, WhatWasSentArrivesThoughTheSenderIsGone) {
  // Gloo's send is complete when the system has the bytes.
  constexpr size_t kBytes = 16 << 20;
  std::string bytes(kBytes, 'x');
  std::string in(kBytes, ' ');
  Transfer send = {1, bytes.data(), bytes.size()};
  Transfer receive = {0, in.data(), in.size()};
  transports_[1]->Receive(&receive);
  transports_[0]->Send(&send);
  while (!send.complete) {
    const absl::StatusOr<bool> moved = transports_[0]->Progress();
    ASSERT_TRUE(moved.ok()) << moved.status();
  }
  transports_[0].reset();
  const absl::Status received = DriveUntil([&] { return receive.complete; });
  EXPECT_TRUE(received.ok()) << received;
  EXPECT_TRUE(in == bytes);
}

TEST_F(GlooTransportTest, AfterAnAbortNoBytesAreTouched) {
  std::string bytes(64 << 20, 'x');
  std::string in(64 << 20, ' ');
  Transfer send = {1, bytes.data(), bytes.size()};
  Transfer receive = {0, in.data(), in.size()};
  char bytes_to_meet[] = "ab";
  Transfer meet[] = {{1, &bytes_to_meet[0], 1}, {0, &bytes_to_meet[1], 1}};
  transports_[0]->Send(&meet[0]);
  transports_[1]->Receive(&meet[1]);
  const absl::Status met = DriveUntil([&] { return meet[1].complete; });
  ASSERT_TRUE(met.ok()) << met;
  transports_[0]->Send(&send);
  transports_[1]->Receive(&receive);
  // Some of it is on its way.
  for (int i = 0; i < 300; ++i) std::this_thread::yield();
  transports_[1]->Abort(absl::AbortedError("enough"));
  EXPECT_EQ(transports_[1]->Progress().status(), absl::AbortedError("enough"));
  const std::string now = in;
  transports_[0].reset();
  EXPECT_TRUE(in == now);
}

TEST(GlooTransportConnectTest, APeerThatIsNotReachedIsNamed) {
  TestHosts hosts(2);
  const absl::StatusOr<std::unique_ptr<PeerPort>> port = PeerPort::Open({"127.0.0.1"});
  ASSERT_TRUE(port.ok()) << port.status();
  PeerPort::Identity identity = hosts.IdentityOf(0);
  identity.endpoints[1] = {"tcp:127.0.0.1:1"};
  (*port)->Enter(std::move(identity));
  GlooTransport transport(0, 2, port->get(), &hosts.bell(0), absl::Seconds(1));
  char byte = 'x';
  Transfer receive = {1, &byte, 1};
  transport.Receive(&receive);
  absl::Status ended;
  while (ended.ok()) ended = transport.Progress().status();
  EXPECT_EQ(ended, absl::DeadlineExceededError("rank 1 (pid 4701 on node-1) cannot be reached from here: "
                                               "tcp:127.0.0.1:1: Connection refused"));
}

TEST(GlooTransportConnectTest, ATransportMayGoWhileItWaits) {
  TestHosts hosts(2);
  GlooTransport transport(1, 2, &hosts.port(1), &hosts.bell(1));
  char byte = 'x';
  Transfer receive = {0, &byte, 1};
  transport.Receive(&receive);
  EXPECT_TRUE(transport.Progress().ok());
}

}  // namespace
}  // namespace farandole
