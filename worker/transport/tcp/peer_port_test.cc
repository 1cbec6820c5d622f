#include "worker/transport/tcp/peer_port.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "gtest/gtest.h"
#include "worker/transport/tcp/interface_address.h"

namespace farandole {
namespace {

using Purpose = PeerPort::Purpose;
using Answer = std::future<absl::StatusOr<int>>;

constexpr absl::Duration kLimit = absl::Seconds(50);
constexpr size_t kClaimBytes = kPeerClaimBytes + sizeof(PeerMac);

std::unique_ptr<PeerPort> OpenPort() {
  absl::StatusOr<std::unique_ptr<PeerPort>> port = PeerPort::Open({"127.0.0.1"});
  EXPECT_TRUE(port.ok()) << port.status();
  return *std::move(port);
}

PeerPort::Identity IdentityOf(int rank, const std::vector<std::vector<std::string>>& endpoints, bool encrypts = false,
                              const std::string& secret = "secret", uint64_t epoch = 7) {
  PeerPort::Identity identity;
  identity.encrypts = encrypts;
  identity.epoch = epoch;
  identity.secret = secret;
  identity.rank = rank;
  identity.endpoints = endpoints;
  for (size_t i = 0; i < endpoints.size(); ++i)
    identity.who.push_back(absl::StrCat("rank ", i, " (pid ", 100 + i, ")"));
  return identity;
}

Answer Ask(PeerPort& port, int peer, absl::Duration limit = kLimit, Purpose purpose = Purpose::kData) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<int>>>();
  Answer answer = promise->get_future();
  port.Connect(peer, purpose, SteadyNow() + limit, [promise](absl::StatusOr<PeerSocket> made) {
    promise->set_value(made.ok() ? absl::StatusOr<int>(made->fd) : made.status());
  });
  return answer;
}

void MakeBlocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  const timeval limit = {50, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

// Up to `size` bytes; fewer where the connection ends first.
std::string Hear(int fd, size_t size) {
  std::string bytes(size, ' ');
  size_t had = 0;
  while (had < size) {
    const ssize_t got = recv(fd, &bytes[had], size - had, 0);
    if (got <= 0) break;
    had += static_cast<size_t>(got);
  }
  bytes.resize(had);
  return bytes;
}

void Say(int fd, const std::string& bytes) {
  EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

// The connection ends without another byte.
bool Ends(int fd) {
  char byte;
  const ssize_t got = recv(fd, &byte, 1, 0);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

int ConnectTo(const std::string& endpoint, const std::string& from = "127.0.0.1") {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const SocketAddress own = *ParseHost(from);
  EXPECT_EQ(bind(fd, own.get(), own.bytes), 0) << strerror(errno);
  const std::optional<SocketAddress> address = ParseEndpoint(endpoint);
  EXPECT_TRUE(address.has_value());
  EXPECT_EQ(connect(fd, address->get(), address->bytes), 0) << strerror(errno);
  MakeBlocking(fd);
  return fd;
}

// Pretends to be a worker.
class Impostor {
 public:
  Impostor() {
    address_ = *ParseHost("127.0.0.1");
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(fd_, address_.get(), address_.bytes), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    address_.bytes = sizeof(address_.storage);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address_.storage), &address_.bytes);
  }
  ~Impostor() { close(fd_); }
  std::string endpoint() const { return address_.Endpoint(); }
  int Accept() const {
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    EXPECT_GE(fd, 0);
    MakeBlocking(fd);
    return fd;
  }

 private:
  SocketAddress address_;
  int fd_;
};

// Two workers of one epoch.
class PeerPortTest : public ::testing::Test {
 protected:
  PeerPortTest() : first_(OpenPort()), second_(OpenPort()) {}
  std::vector<std::vector<std::string>> Endpoints() const { return {first_->endpoints(), second_->endpoints()}; }
  void EnterBoth(bool encrypts = false) {
    first_->Enter(IdentityOf(0, Endpoints(), encrypts));
    second_->Enter(IdentityOf(1, Endpoints(), encrypts));
  }
  void ExpectConnected(Answer lower, Answer higher) {
    const absl::StatusOr<int> a = lower.get();
    const absl::StatusOr<int> b = higher.get();
    ASSERT_TRUE(a.ok()) << a.status();
    ASSERT_TRUE(b.ok()) << b.status();
    MakeBlocking(*a);
    MakeBlocking(*b);
    Say(*a, "from below");
    Say(*b, "from above");
    EXPECT_EQ(Hear(*a, 10), "from above");
    EXPECT_EQ(Hear(*b, 10), "from below");
    close(*a);
    close(*b);
  }
  // Expects that the right peer still gets in, after others were turned away.
  void ExpectStillOpen() {
    Answer higher = Ask(*second_, 0);
    ExpectConnected(Ask(*first_, 1), std::move(higher));
  }

  std::unique_ptr<PeerPort> first_;
  std::unique_ptr<PeerPort> second_;
};

TEST_F(PeerPortTest, EndpointsAreThoseOfTheInterfaces) {
  ASSERT_EQ(first_->endpoints().size(), 1u);
  EXPECT_TRUE(absl::StartsWith(first_->endpoints()[0], "tcp:127.0.0.1:")) << first_->endpoints()[0];
  EXPECT_EQ(PeerPort::Open({"nosuch0"}).status().code(), absl::StatusCode::kInvalidArgument);
  const absl::StatusOr<std::unique_ptr<PeerPort>> loopback = PeerPort::Open({"lo"});
  ASSERT_TRUE(loopback.ok()) << loopback.status();
  for (const std::string& endpoint : (*loopback)->endpoints()) {
    EXPECT_EQ(ParseEndpoint(endpoint)->port(), ParseEndpoint((*loopback)->endpoints()[0])->port()) << endpoint;
  }
  const absl::StatusOr<std::unique_ptr<PeerPort>> all = PeerPort::Open({});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_FALSE((*all)->endpoints().empty());
  EXPECT_LE((*all)->endpoints().size(), 14u);
}

TEST_F(PeerPortTest, AConnectionIsReadyForUse) {
  EnterBoth();
  Answer higher = Ask(*second_, 0);
  Answer lower = Ask(*first_, 1);
  for (Answer* answer : {&lower, &higher}) {
    const absl::StatusOr<int> fd = answer->get();
    ASSERT_TRUE(fd.ok()) << fd.status();
    EXPECT_NE(fcntl(*fd, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(fcntl(*fd, F_GETFD) & FD_CLOEXEC, 0);
    int no_delay = 0;
    socklen_t bytes = sizeof(no_delay);
    EXPECT_EQ(getsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &bytes), 0);
    EXPECT_EQ(no_delay, 1);
    int retries_sooner = 0;
    EXPECT_EQ(getsockopt(*fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &retries_sooner, &bytes), 0);
    EXPECT_EQ(retries_sooner, 1);
    close(*fd);
  }
}

TEST_F(PeerPortTest, TheHigherRankMayAskLater) {
  EnterBoth();
  Answer lower = Ask(*first_, 1);
  const absl::StatusOr<int> a = lower.get();
  ASSERT_TRUE(a.ok()) << a.status();
  const absl::StatusOr<int> b = Ask(*second_, 0).get();
  ASSERT_TRUE(b.ok()) << b.status();
  close(*a);
  close(*b);
}

TEST_F(PeerPortTest, TheLowerRankMayComeBeforeTheOtherKnowsItsEpoch) {
  first_->Enter(IdentityOf(0, Endpoints()));
  Answer lower = Ask(*first_, 1);
  EXPECT_EQ(lower.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  second_->Enter(IdentityOf(1, Endpoints()));
  ExpectConnected(std::move(lower), Ask(*second_, 0));
}

TEST(PeerPortPairsTest, EveryPairOfEightConnects) {
  std::vector<std::unique_ptr<PeerPort>> ports;
  std::vector<std::vector<std::string>> endpoints;
  for (int rank = 0; rank < 8; ++rank) {
    ports.push_back(OpenPort());
    endpoints.push_back(ports.back()->endpoints());
    // The first that proves itself wins, and nothing else is in its way.
    endpoints.back().insert(endpoints.back().begin(), {"unix-abstract:x", "tcp:127.0.0.1:1"});
    endpoints.back().push_back(endpoints.back().back());
  }
  std::vector<Answer> answers;
  for (int rank = 0; rank < 8; ++rank) {
    ports[rank]->Enter(IdentityOf(rank, endpoints));
    for (int peer = 0; peer < 8; ++peer) {
      if (peer != rank) answers.push_back(Ask(*ports[rank], peer));
    }
  }
  std::vector<int> fds;
  for (Answer& answer : answers) {
    const absl::StatusOr<int> fd = answer.get();
    ASSERT_TRUE(fd.ok()) << fd.status();
    MakeBlocking(*fd);
    fds.push_back(*fd);
  }
  // By rank, then peer: the two ends of each pair are each other's.
  const auto end = [&](int rank, int peer) { return fds[rank * 7 + peer - (peer > rank)]; };
  for (int rank = 0; rank < 8; ++rank) {
    for (int peer = 0; peer < 8; ++peer) {
      if (peer != rank) Say(end(rank, peer), absl::StrCat(rank, peer));
    }
  }
  for (int rank = 0; rank < 8; ++rank) {
    for (int peer = 0; peer < 8; ++peer) {
      if (peer == rank) continue;
      EXPECT_EQ(Hear(end(rank, peer), 2), absl::StrCat(peer, rank));
    }
  }
  for (const int fd : fds) close(fd);
}

TEST_F(PeerPortTest, AStrangerIsToldNothing) {
  EnterBoth();
  for (const std::string& bytes :
       {std::string(kClaimBytes, 'x'), std::string(5000, '\0'), std::string("GET / HTTP/1.1\r\n\r\n"),
        EncodePeerClaim({7, 0, 1, 2, {}}) + std::string(sizeof(PeerMac), 'm')}) {
    const int stranger = ConnectTo(second_->endpoints()[0]);
    EXPECT_EQ(Hear(stranger, sizeof(PeerNonce)).size(), sizeof(PeerNonce));
    Say(stranger, bytes);
    if (bytes.size() >= kClaimBytes) {
      EXPECT_TRUE(Ends(stranger));
    }
    close(stranger);
  }
  ExpectStillOpen();
}

TEST_F(PeerPortTest, AWorkerOfAnotherEpochIsTurnedAway) {
  EnterBoth();
  const std::unique_ptr<PeerPort> old = OpenPort();
  old->Enter(IdentityOf(0, Endpoints(), false, "secret", 6));
  const absl::Status turned_away = Ask(*old, 1, absl::Milliseconds(300)).get().status();
  EXPECT_EQ(turned_away, absl::DeadlineExceededError(absl::StrCat(
                             "rank 1 (pid 101) cannot be reached from here: ", second_->endpoints()[0],
                             ": what answers there ended the connection without proof of rank 1 of epoch 6")));
  ExpectStillOpen();
}

TEST_F(PeerPortTest, AWorkerWithAnotherSecretIsTurnedAway) {
  EnterBoth();
  const std::unique_ptr<PeerPort> guesser = OpenPort();
  guesser->Enter(IdentityOf(0, Endpoints(), false, "guess"));
  EXPECT_EQ(Ask(*guesser, 1, absl::Milliseconds(300)).get().status().code(), absl::StatusCode::kDeadlineExceeded);
  ExpectStillOpen();
}

TEST_F(PeerPortTest, ARankThatTheConnectionIsNotMeantForTurnsItAway) {
  EnterBoth();
  // Says that rank 2 listens where rank 1 does.
  const std::unique_ptr<PeerPort> confused = OpenPort();
  confused->Enter(IdentityOf(0, {{}, {}, second_->endpoints()}));
  EXPECT_EQ(Ask(*confused, 2, absl::Milliseconds(300)).get().status().code(), absl::StatusCode::kDeadlineExceeded);
  ExpectStillOpen();
}

TEST_F(PeerPortTest, RecordedBytesProveNothingOnAnotherConnection) {
  const Impostor between;
  first_->Enter(IdentityOf(0, {{}, {between.endpoint()}}));
  second_->Enter(IdentityOf(1, Endpoints()));
  Answer lower = Ask(*first_, 1);
  const int from_first = between.Accept();
  const int to_second = ConnectTo(second_->endpoints()[0]);
  Say(from_first, Hear(to_second, sizeof(PeerNonce)));
  const std::string recorded = Hear(from_first, kClaimBytes);
  ASSERT_EQ(recorded.size(), kClaimBytes);
  const int replay = ConnectTo(second_->endpoints()[0]);
  EXPECT_EQ(Hear(replay, sizeof(PeerNonce)).size(), sizeof(PeerNonce));
  Say(replay, recorded);
  EXPECT_TRUE(Ends(replay));
  // On the connection that they were made for they are good.
  Say(to_second, recorded);
  const std::string proof = Hear(to_second, sizeof(PeerMac));
  ASSERT_EQ(proof.size(), sizeof(PeerMac));
  Say(from_first, proof);
  const absl::StatusOr<int> fd = lower.get();
  EXPECT_TRUE(fd.ok()) << fd.status();
  for (const int each : {from_first, to_second, replay, *fd}) close(each);
}

TEST_F(PeerPortTest, AnImpostorGetsNoConnection) {
  const Impostor impostor;
  first_->Enter(IdentityOf(0, {{}, {impostor.endpoint()}}));
  Answer lower = Ask(*first_, 1, absl::Milliseconds(700));
  int fd = impostor.Accept();
  Say(fd, std::string(sizeof(PeerNonce), 'n'));
  std::string claim = Hear(fd, kClaimBytes);
  ASSERT_EQ(claim.size(), kClaimBytes);
  // Its own proof, turned back on it.
  Say(fd, claim.substr(kPeerClaimBytes));
  EXPECT_TRUE(Ends(fd));
  close(fd);
  fd = impostor.Accept();
  Say(fd, std::string(sizeof(PeerNonce) + sizeof(PeerMac), 'n'));
  EXPECT_EQ(Hear(fd, kClaimBytes).size(), kClaimBytes);
  EXPECT_TRUE(Ends(fd));
  close(fd);
  const absl::Status status = lower.get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(absl::StrContains(status.message(), "the process that answers there does not know this epoch's secret") ||
              absl::StrContains(status.message(), "does not greet"))
      << status;
}

TEST_F(PeerPortTest, TheRightAddressWinsOverAnImpostor) {
  const Impostor impostor;
  std::vector<std::vector<std::string>> endpoints = Endpoints();
  endpoints[1].insert(endpoints[1].begin(), impostor.endpoint());
  first_->Enter(IdentityOf(0, endpoints));
  Answer lower = Ask(*first_, 1);
  const int fd = impostor.Accept();
  second_->Enter(IdentityOf(1, endpoints));
  ExpectConnected(std::move(lower), Ask(*second_, 0));
  EXPECT_TRUE(Ends(fd));
  close(fd);
}

TEST_F(PeerPortTest, WhoSaysNothingOrHalfHoldsNobodyUpAndIsDropped) {
  EnterBoth();
  const int silent = ConnectTo(second_->endpoints()[0]);
  const int half = ConnectTo(second_->endpoints()[0]);
  for (const int fd : {silent, half}) EXPECT_EQ(Hear(fd, sizeof(PeerNonce)).size(), sizeof(PeerNonce));
  Say(half, std::string(kClaimBytes - 1, 'x'));
  ExpectStillOpen();
  EXPECT_TRUE(Ends(silent));
  EXPECT_TRUE(Ends(half));
  close(silent);
  close(half);
}

TEST_F(PeerPortTest, AFloodKeepsNobodyOut) {
  EnterBoth();
  std::vector<int> flood;
  for (int i = 0; i < PeerPort::kMaxUnproven + 100; ++i) flood.push_back(ConnectTo(second_->endpoints()[0]));
  ExpectStillOpen();
  // The oldest made room for the later ones.
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Hear(flood[i], sizeof(PeerNonce)).size(), sizeof(PeerNonce));
    EXPECT_TRUE(Ends(flood[i]));
  }
  for (const int fd : flood) close(fd);
}

TEST_F(PeerPortTest, ACrowdOfOneAddressTakesNoPlaceOfAnother) {
  EnterBoth();
  std::vector<int> all = {ConnectTo(second_->endpoints()[0], "127.0.0.2")};
  EXPECT_EQ(Hear(all[0], sizeof(PeerNonce)).size(), sizeof(PeerNonce));
  for (int i = 0; i < PeerPort::kMaxUnproven + 100; ++i) all.push_back(ConnectTo(second_->endpoints()[0]));
  for (const int fd : {all[1], all.back()}) EXPECT_EQ(Hear(fd, sizeof(PeerNonce)).size(), sizeof(PeerNonce));
  EXPECT_TRUE(Ends(all[1]));
  char byte;
  EXPECT_TRUE(recv(all[0], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN) << "it may still prove itself";
  for (const int fd : all) close(fd);
}

TEST_F(PeerPortTest, AProcessWithoutDescriptorsAdmitsItsPeersWhenItHasSomeAgain) {
  EnterBoth();
  const int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  MakeBlocking(peer);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const SocketAddress address = *ParseEndpoint(second_->endpoints()[0]);
  EXPECT_EQ(connect(peer, address.get(), address.bytes), 0) << strerror(errno);
  // The port's thread has tried, or will find descriptors at its first attempt.
  std::promise<void> passed;
  second_->loop().Post([&] { passed.set_value(); });
  passed.get_future().wait();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(Hear(peer, sizeof(PeerNonce)).size(), sizeof(PeerNonce));
  close(peer);
  ExpectStillOpen();
}

TEST_F(PeerPortTest, AProvenConnectionIsNotMadeTwice) {
  EnterBoth();
  ExpectStillOpen();
  const std::unique_ptr<PeerPort> again = OpenPort();
  again->Enter(IdentityOf(0, Endpoints()));
  EXPECT_EQ(Ask(*again, 1, absl::Milliseconds(300)).get().status().code(), absl::StatusCode::kDeadlineExceeded);
}

// The socket of a connection that both sides ask for in turn.
PeerSocket Made(PeerPort* port, int peer, Purpose purpose) {
  std::promise<absl::StatusOr<PeerSocket>> made;
  port->Connect(peer, purpose, SteadyNow() + kLimit, [&made](auto socket) { made.set_value(std::move(socket)); });
  return *made.get_future().get();
}

TEST_F(PeerPortTest, PurposesHaveConnectionsOfTheirOwnAndARelaysIsAlwaysEncrypted) {
  EnterBoth();
  for (const Purpose purpose : {Purpose::kData, Purpose::kRelay}) {
    const PeerSocket sockets[] = {Made(first_.get(), 1, purpose), Made(second_.get(), 0, purpose)};
    for (const PeerSocket& socket : sockets) EXPECT_EQ(socket.secrets.has_value(), purpose == Purpose::kRelay);
    for (const PeerSocket& socket : sockets) close(socket.fd);
  }
}

TEST_F(PeerPortTest, BothEndsHaveTheSameSecretsWhereTheEpochEncrypts) {
  EnterBoth(/*encrypts=*/true);
  std::set<RecordSecret> all;
  for (const Purpose purpose : {Purpose::kData, Purpose::kRelay}) {
    const PeerSocket lower = Made(first_.get(), 1, purpose);
    const PeerSocket higher = Made(second_.get(), 0, purpose);
    ASSERT_TRUE(lower.secrets.has_value() && higher.secrets.has_value());
    EXPECT_EQ(lower.secrets->send, higher.secrets->receive);
    EXPECT_EQ(lower.secrets->receive, higher.secrets->send);
    all.insert({lower.secrets->send, lower.secrets->receive});
    for (const PeerSocket& socket : {lower, higher}) close(socket.fd);
  }
  EXPECT_EQ(all.size(), 4u);
}

TEST_F(PeerPortTest, ARankThatDiffersAboutEncryptionIsTurnedAway) {
  EnterBoth();
  const std::unique_ptr<PeerPort> other = OpenPort();
  other->Enter(IdentityOf(0, Endpoints(), /*encrypts=*/true));
  EXPECT_EQ(Ask(*other, 1, absl::Milliseconds(300)).get().status().code(), absl::StatusCode::kDeadlineExceeded);
  ExpectStillOpen();
}

TEST_F(PeerPortTest, WhoIsNotReachedIsNamedWithEachAddress) {
  const std::string closed = second_->endpoints()[0];
  first_->Enter(IdentityOf(0, {{}, {"unix-abstract:x", closed, "tcp:127.0.0.1:1"}, {"unix-abstract:y"}}));
  second_.reset();
  EXPECT_EQ(Ask(*first_, 1, absl::Seconds(1)).get().status(),
            absl::DeadlineExceededError(absl::StrCat("rank 1 (pid 101) cannot be reached from here: ", closed,
                                                     ": Connection refused; tcp:127.0.0.1:1: Connection refused")));
  EXPECT_EQ(Ask(*first_, 2, absl::Milliseconds(10)).get().status(),
            absl::DeadlineExceededError("rank 2 (pid 102) cannot be reached from here: it says no TCP address"));
}

TEST_F(PeerPortTest, WhoDoesNotComeIsNamed) {
  EnterBoth();
  EXPECT_EQ(Ask(*second_, 0, absl::Milliseconds(10)).get().status(),
            absl::DeadlineExceededError(absl::StrCat(
                "rank 0 (pid 100) did not connect to rank 1 in time, which listens at ", second_->endpoints()[0])));
}

TEST_F(PeerPortTest, APortMayGoWhileItConnects) {
  const Impostor silent;
  first_->Enter(IdentityOf(0, {{}, {silent.endpoint()}}));
  second_->Enter(IdentityOf(1, Endpoints()));
  Answer lower = Ask(*first_, 1);
  Answer higher = Ask(*second_, 0);
  const int fd = silent.Accept();
  const int stranger = ConnectTo(second_->endpoints()[0]);
  EXPECT_EQ(Hear(stranger, sizeof(PeerNonce)).size(), sizeof(PeerNonce));
  first_.reset();
  second_.reset();
  EXPECT_TRUE(Ends(fd));
  EXPECT_TRUE(Ends(stranger));
  close(fd);
  close(stranger);
}

}  // namespace
}  // namespace farandole
