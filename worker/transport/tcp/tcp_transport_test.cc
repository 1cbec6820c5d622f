#include "worker/transport/tcp/tcp_transport.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "gtest/gtest.h"
#include "worker/transport/tcp/test_hosts.h"
#include "worker/transport/testing/conformance.h"

namespace farandole {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(30);
// A limit that ends waits after all messages have come, also on a busy machine.
constexpr absl::Duration kAnswerLimit = absl::Seconds(1);

TransportSet MakeTcpSetThatMay(bool encrypts, int size) {
  auto hosts = std::make_shared<TestHosts>(size, std::vector<std::string>{"127.0.0.1"}, encrypts);
  TransportSet set;
  for (int rank = 0; rank < size; ++rank) {
    set.transports.push_back(std::make_unique<TcpTransport>(rank, size, &hosts->port(rank), &hosts->sockets(rank)));
    set.doorbells.push_back(&hosts->bell(rank));
  }
  set.rest = [raw = hosts.get()](int rank) { raw->sockets(rank).Rest(); };
  set.foundation = std::move(hosts);
  return set;
}

TransportSet MakeTcpSet(int size) { return MakeTcpSetThatMay(/*encrypts=*/false, size); }
TransportSet MakeEncryptedTcpSet(int size) { return MakeTcpSetThatMay(/*encrypts=*/true, size); }

INSTANTIATE_TEST_SUITE_P(Tcp, TransportConformanceTest, ::testing::ValuesIn(ConformanceCases({"Tcp", MakeTcpSet})),
                         ConformanceCaseName);

INSTANTIATE_TEST_SUITE_P(EncryptedTcp, TransportConformanceTest,
                         ::testing::ValuesIn(ConformanceCases({"EncryptedTcp", MakeEncryptedTcpSet})),
                         ConformanceCaseName);

// Ranks 0 and 1, of which this thread is both; the parameter: whether what they send is encrypted.
class TcpTransportTest : public ::testing::TestWithParam<bool> {
 protected:
  TcpTransportTest() : hosts_(2, {"127.0.0.1"}, GetParam()) {
    for (int rank = 0; rank < 2; ++rank)
      transports_[rank] = std::make_unique<TcpTransport>(rank, 2, &hosts_.port(rank), &hosts_.sockets(rank));
  }
  // Progress of both until `done`, or until one of them fails.
  template <typename Done>
  absl::Status DriveUntil(const Done& done) {
    const absl::Time deadline = SteadyNow() + kLimit;
    while (!done()) {
      if (SteadyNow() > deadline) return absl::DeadlineExceededError("nothing moves any more");
      for (const std::unique_ptr<TcpTransport>& transport : transports_) {
        if (transport == nullptr) continue;
        const absl::StatusOr<bool> moved = transport->Progress();
        if (!moved.ok()) return moved.status();
        if (!*moved) std::this_thread::yield();
      }
    }
    return absl::OkStatus();
  }
  // One byte each way, so that there is a connection.
  void Meet() {
    char bytes[] = "abcd";
    Transfer transfers[] = {{1, &bytes[0], 1}, {1, &bytes[1], 1}, {0, &bytes[2], 1}, {0, &bytes[3], 1}};
    transports_[0]->Send(&transfers[0]);
    transports_[0]->Receive(&transfers[1]);
    transports_[1]->Send(&transfers[2]);
    transports_[1]->Receive(&transfers[3]);
    const absl::Status met = DriveUntil([&] {
      return std::all_of(transfers, transfers + 4, [](const Transfer& transfer) { return transfer.complete; });
    });
    ASSERT_TRUE(met.ok()) << met;
    ASSERT_STREQ(bytes, "acca");
  }

  TestHosts hosts_;
  std::unique_ptr<TcpTransport> transports_[2];
};

TEST_P(TcpTransportTest, TransfersThatMatchHaveEqualLengths) {
  std::string eight = "12345678";
  std::string nine(9, ' ');
  Transfer send = {1, eight.data(), eight.size()};
  Transfer receive = {0, nine.data(), nine.size()};
  transports_[0]->Send(&send);
  transports_[1]->Receive(&receive);
  EXPECT_EQ(DriveUntil([&] { return receive.complete; }),
            absl::InternalError("rank 0 sends 8 bytes to rank 1, which expects 9"));
  EXPECT_EQ(transports_[1]->Progress().status(),
            absl::InternalError("rank 0 sends 8 bytes to rank 1, which expects 9"));
}

TEST_P(TcpTransportTest, EmptyTransfersTakeTheirTurn) {
  std::string byte = "x";
  std::string received = " ";
  Transfer sends[] = {{1, nullptr, 0}, {1, byte.data(), 1}, {1, nullptr, 0}};
  Transfer receives[] = {{0, nullptr, 0}, {0, received.data(), 1}, {0, nullptr, 0}};
  for (Transfer& receive : receives) transports_[1]->Receive(&receive);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(transports_[1]->Progress().ok());
  EXPECT_FALSE(receives[0].complete);
  for (Transfer& send : sends) transports_[0]->Send(&send);
  const absl::Status driven = DriveUntil([&] { return receives[2].complete; });
  ASSERT_TRUE(driven.ok()) << driven;
  EXPECT_TRUE(sends[0].complete && sends[1].complete && sends[2].complete);
  EXPECT_TRUE(receives[0].complete && receives[1].complete);
  EXPECT_EQ(received, "x");
}

TEST_P(TcpTransportTest, ManySmallTransfersTravelTogether) {
  Meet();
  std::vector<std::string> out;
  std::vector<std::string> in;
  std::vector<Transfer> transfers;
  constexpr int kCount = 1000;
  transfers.reserve(2 * kCount);
  for (int i = 0; i < kCount; ++i) {
    out.push_back(std::string(i % 7, static_cast<char>('a' + i % 26)));
    in.push_back(std::string(i % 7, ' '));
  }
  for (int i = 0; i < kCount; ++i) {
    transfers.push_back({1, out[i].data(), out[i].size()});
    transports_[0]->Send(&transfers.back());
  }
  for (int i = 0; i < kCount; ++i) {
    transfers.push_back({0, in[i].data(), in[i].size()});
    transports_[1]->Receive(&transfers.back());
  }
  const absl::Status driven = DriveUntil([&] { return transfers.back().complete; });
  ASSERT_TRUE(driven.ok()) << driven;
  EXPECT_EQ(in, out);
}

TEST_P(TcpTransportTest, ALargeTransferWaitsForItsReader) {
  Meet();
  std::string bytes(64 << 20, 'x');
  Transfer send = {1, bytes.data(), bytes.size()};
  transports_[0]->Send(&send);
  // No peer reads: the system holds a bounded amount.
  while (*transports_[0]->Progress()) {
  }
  EXPECT_FALSE(send.complete);
  EXPECT_LT(send.done, bytes.size());
  std::string read(bytes.size(), ' ');
  Transfer receive = {0, read.data(), read.size()};
  transports_[1]->Receive(&receive);
  const absl::Status driven = DriveUntil([&] { return receive.complete; });
  ASSERT_TRUE(driven.ok()) << driven;
  EXPECT_TRUE(send.complete);
  EXPECT_TRUE(read == bytes);
}

TEST_P(TcpTransportTest, APeerThatEndsInTheMiddleOfATransferIsNamed) {
  Meet();
  std::string bytes(64 << 20, 'x');
  Transfer send = {1, bytes.data(), bytes.size()};
  Transfer receive = {0, bytes.data(), bytes.size()};
  transports_[0]->Send(&send);
  transports_[1]->Receive(&receive);
  const absl::Status driven = DriveUntil([&] { return receive.done > 0; });
  ASSERT_TRUE(driven.ok()) << driven;
  transports_[0].reset();
  const absl::Status ended = DriveUntil([&] { return receive.complete; });
  EXPECT_EQ(ended.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(absl::StartsWith(
      ended.message(), "rank 0 (pid 4700 on node-0) ended its connection to rank 1, which waits for 67108864 bytes"))
      << ended;
  EXPECT_EQ(transports_[1]->Progress().status(), ended);
}

TEST_P(TcpTransportTest, APeerThatIsGoneIsNamedByWhoSendsToIt) {
  Meet();
  transports_[1].reset();
  std::string bytes(64 << 20, 'x');
  Transfer send = {1, bytes.data(), bytes.size()};
  transports_[0]->Send(&send);
  const absl::Status ended = DriveUntil([&] { return send.complete; });
  EXPECT_EQ(ended.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(absl::StartsWith(ended.message(), "the connection of rank 0 to rank 1 (pid 4701 on node-1) broke: "))
      << ended;
}

TEST_P(TcpTransportTest, WhatAPeerSentBeforeItEndedIsReceived) {
  Meet();
  std::string bytes = "last words";
  Transfer send = {1, bytes.data(), bytes.size()};
  transports_[0]->Send(&send);
  const absl::Status sent = DriveUntil([&] { return send.complete; });
  ASSERT_TRUE(sent.ok()) << sent;
  transports_[0].reset();
  // Nothing is expected of it, and its end is no error yet.
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(transports_[1]->Progress().ok());
  std::string heard(bytes.size(), ' ');
  Transfer receive = {0, heard.data(), heard.size()};
  transports_[1]->Receive(&receive);
  const absl::Status received = DriveUntil([&] { return receive.complete; });
  ASSERT_TRUE(received.ok()) << received;
  EXPECT_EQ(heard, bytes);
  Transfer more = {0, heard.data(), 1};
  transports_[1]->Receive(&more);
  EXPECT_EQ(DriveUntil([&] { return more.complete; }).code(), absl::StatusCode::kAborted);
}

TEST_P(TcpTransportTest, AnEndedConnectionThatNobodyUsesLetsItsRankSleep) {
  Meet();
  char byte = 'x';
  Transfer unread = {1, &byte, 1};
  transports_[0]->Send(&unread);
  const absl::Status sent = DriveUntil([&] { return unread.complete; });
  ASSERT_TRUE(sent.ok()) << sent;
  transports_[0].reset();
  const absl::Time deadline = SteadyNow() + kLimit;
  int quiet = 0;
  while (quiet < 100 && SteadyNow() < deadline) quiet = *transports_[1]->Progress() ? 0 : quiet + 1;
  EXPECT_EQ(quiet, 100);
}

INSTANTIATE_TEST_SUITE_P(EitherWay, TcpTransportTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Encrypted" : "Plain"; });

TEST(TcpTransportConnectTest, AStrangerInAPeersPlaceMovesNothing) {
  TestHosts hosts(2);
  // Rank 0 of another job, that knows where rank 1 listens.
  const absl::StatusOr<std::unique_ptr<PeerPort>> port = PeerPort::Open({"127.0.0.1"});
  ASSERT_TRUE(port.ok()) << port.status();
  PeerPort::Identity identity = hosts.IdentityOf(0);
  identity.secret = "a guess";
  (*port)->Enter(std::move(identity));
  TcpTransport stranger(0, 2, port->get(), &hosts.sockets(0), kAnswerLimit);
  TcpTransport transport(1, 2, &hosts.port(1), &hosts.sockets(1), kLimit);
  char out = 'x';
  char in = 'y';
  Transfer send = {1, &out, 1};
  Transfer receive = {0, &in, 1};
  stranger.Send(&send);
  transport.Receive(&receive);
  absl::Status ended;
  while (ended.ok()) {
    ended = stranger.Progress().status();
    ASSERT_TRUE(transport.Progress().ok());
  }
  EXPECT_EQ(ended, absl::DeadlineExceededError(absl::StrCat(
                       "rank 1 (pid 4701 on node-1) cannot be reached from here: ", hosts.port(1).endpoints()[0],
                       ": what answers there ended the connection without proof of rank 1 of epoch 7")));
  EXPECT_FALSE(send.complete || receive.complete);
  EXPECT_EQ(in, 'y');
}

TEST(TcpTransportConnectTest, WhoCannotReachAPeerSleepsUntilItsDeadline) {
  TestHosts hosts(2);
  const absl::StatusOr<std::unique_ptr<PeerPort>> port = PeerPort::Open({"127.0.0.1"});
  ASSERT_TRUE(port.ok()) << port.status();
  PeerPort::Identity identity = hosts.IdentityOf(0);
  identity.endpoints[1] = {"tcp:127.0.0.1:1"};
  (*port)->Enter(std::move(identity));
  TcpTransport transport(0, 2, port->get(), &hosts.sockets(0), kAnswerLimit);
  char byte = 'x';
  Transfer receive = {1, &byte, 1};
  transport.Receive(&receive);
  Doorbell& bell = hosts.bell(0);
  absl::Status ended;
  for (int sleeps = 0; ended.ok() && sleeps < 10; ++sleeps) {
    const uint32_t ticket = bell.Ticket();
    bell.SetAttention(Attention::kDriverAsleep);
    ended = transport.Progress().status();
    if (!ended.ok()) break;
    hosts.sockets(0).Rest();
    bell.Sleep(ticket, Attention::kDriverAsleep, kLimit);
  }
  EXPECT_EQ(ended, absl::DeadlineExceededError("rank 1 (pid 4701 on node-1) cannot be reached from here: "
                                               "tcp:127.0.0.1:1: Connection refused"));
}

TEST_P(TcpTransportTest, TheSetTellsWhatAPeerHasAcknowledged) {
  std::string out(3 << 20, 'x');
  std::string in(out.size(), ' ');
  EXPECT_TRUE(hosts_.sockets(0).Sending().empty());
  Transfer send = {1, out.data(), out.size()};
  Transfer receive = {0, in.data(), in.size()};
  transports_[0]->Send(&send);
  transports_[1]->Receive(&receive);
  ASSERT_TRUE(DriveUntil([&] {
                // The last acknowledgement may come later than the bytes.
                const std::vector<PeerSending> sending = hosts_.sockets(0).Sending();
                return receive.complete && sending[0].bytes >= out.size();
              }).ok());
  const std::vector<PeerSending> sending = hosts_.sockets(0).Sending();
  ASSERT_EQ(sending.size(), 1u);
  // The kernel counts the time in ticks of some milliseconds, which may be more than this takes; test_slow_link.py has
  // a link on which it takes longer.
  EXPECT_EQ(sending[0].peer, 1);
  ASSERT_EQ(hosts_.sockets(1).Sending().size(), 1u);
  EXPECT_EQ(hosts_.sockets(1).Sending()[0].peer, 0);
}

TEST(TcpTransportConnectTest, RanksMeetOverIpv6) {
  if (!PeerPort::Open({"::1"}).ok()) GTEST_SKIP() << "this machine has no ::1";
  TestHosts hosts(2, {"::1"});
  TcpTransport sender(0, 2, &hosts.port(0), &hosts.sockets(0));
  TcpTransport receiver(1, 2, &hosts.port(1), &hosts.sockets(1));
  char out = 'x';
  char in = ' ';
  Transfer send = {1, &out, 1};
  Transfer receive = {0, &in, 1};
  sender.Send(&send);
  receiver.Receive(&receive);
  const absl::Time deadline = SteadyNow() + kLimit;
  while (!receive.complete && SteadyNow() < deadline) {
    ASSERT_TRUE(sender.Progress().ok() && receiver.Progress().ok());
    std::this_thread::yield();
  }
  EXPECT_EQ(in, 'x');
}

TEST(TcpTransportConnectTest, ATransportMayGoWhileItConnects) {
  TestHosts hosts(2);
  for (int round = 0; round < 2; ++round) {
    auto transport = std::make_unique<TcpTransport>(round, 2, &hosts.port(round), &hosts.sockets(round));
    char byte = 'x';
    Transfer receive = {1 - round, &byte, 1};
    transport->Receive(&receive);
    if (round == 1) {
      EXPECT_TRUE(transport->Progress().ok());
    }
    transport.reset();
  }
}

}  // namespace
}  // namespace farandole
