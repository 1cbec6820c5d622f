#include "worker/transport/shm/host_door.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/steady_time.h"
#include "gtest/gtest.h"
#include "worker/transport/shm/epoch_memory.h"

namespace farandole {
namespace {

constexpr size_t kBytes = 4096;

HostDoor::Terms TermsOf(const std::string& secret, uint64_t epoch, absl::Duration limit = absl::Seconds(50)) {
  HostDoor::Terms terms;
  terms.secret = secret;
  terms.epoch = epoch;
  terms.deadline = SteadyNow() + limit;
  terms.give_up = [] { return absl::OkStatus(); };
  return terms;
}

// The first rank of a host, that offers memory with "hello" in it to `peers`.
class HostDoorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<HostDoor>> door = HostDoor::Open();
    ASSERT_TRUE(door.ok()) << door.status();
    door_ = *std::move(door);
    absl::StatusOr<std::unique_ptr<EpochMemory>> memory = EpochMemory::Create(kBytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    std::strcpy(memory_->data(), "hello");
  }
  void Offer(std::vector<int> peers, HostDoor::Terms terms = TermsOf("secret", 7)) {
    offer_ = std::thread([this, peers, terms] { offered_ = door_->Offer(terms, memory_->fd(), peers); });
  }
  absl::Status Offered() {
    offer_.join();
    return offered_;
  }
  absl::StatusOr<int> Enter(int rank, const HostDoor::Terms& terms = TermsOf("secret", 7)) {
    return HostDoor::Enter(door_->endpoint(), terms, rank);
  }
  void ExpectEnters(int rank) {
    const absl::StatusOr<int> fd = Enter(rank);
    ASSERT_TRUE(fd.ok()) << fd.status();
    const absl::StatusOr<std::unique_ptr<EpochMemory>> memory = EpochMemory::Map(*fd, kBytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_STREQ((*memory)->data(), "hello");
  }
  void ExpectTurnedAway(const absl::StatusOr<int>& fd, const std::string& end) {
    EXPECT_EQ(fd.status(), absl::PermissionDeniedError(absl::StrCat("what answers at ", door_->endpoint(), " ", end)));
  }
  // The address of an endpoint, and its length.
  static std::pair<struct sockaddr_un, socklen_t> AddressOf(absl::string_view endpoint) {
    struct sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const absl::string_view name = absl::StripPrefix(endpoint, "unix-abstract:");
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    return {address, static_cast<socklen_t>(offsetof(struct sockaddr_un, sun_path) + 1 + name.size())};
  }
  // A connection that says `bytes`.
  int Say(const std::string& bytes) {
    const auto [address, length] = AddressOf(door_->endpoint());
    const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(connection, reinterpret_cast<const struct sockaddr*>(&address), length), 0);
    EXPECT_EQ(send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    return connection;
  }

  std::unique_ptr<HostDoor> door_;
  std::unique_ptr<EpochMemory> memory_;
  absl::Status offered_;
  std::thread offer_;
};

TEST_F(HostDoorTest, EveryPeerThatKnowsTheSecretGetsTheMemory) {
  Offer({1, 2, 3, 4, 5});
  std::vector<std::thread> peers;
  for (int rank = 5; rank >= 1; --rank) peers.emplace_back([this, rank] { ExpectEnters(rank); });
  for (std::thread& peer : peers) peer.join();
  EXPECT_TRUE(Offered().ok());
}

TEST_F(HostDoorTest, PeersMayComeBeforeTheOffer) {
  std::thread peer([this] { ExpectEnters(1); });
  Offer({1});
  peer.join();
  EXPECT_TRUE(Offered().ok());
}

TEST_F(HostDoorTest, AStrangerIsTurnedAwayAndTheRightOneStillGetsIn) {
  Offer({1, 2});
  ExpectTurnedAway(Enter(1, TermsOf("guess", 7)), "does not know this epoch's secret");
  ExpectTurnedAway(Enter(1, TermsOf("secret", 6)), "does not expect rank 1 of epoch 6");
  ExpectTurnedAway(Enter(3), "does not expect rank 3 of epoch 7");
  ExpectEnters(1);
  ExpectTurnedAway(Enter(1), "does not expect rank 1 of epoch 7");
  ExpectEnters(2);
  EXPECT_TRUE(Offered().ok());
}

TEST_F(HostDoorTest, GarbageAndHalfAGreetingHoldNobodyUp) {
  Offer({1});
  std::vector<int> connections = {Say(std::string(4096, 'x')), Say(std::string(32, '\0')), Say("1OD")};
  // The door drops at once connections that have said something and closed.
  for (int connection : connections) close(connection);
  const absl::Time started = SteadyNow();
  ExpectEnters(1);
  EXPECT_LT(SteadyNow() - started, absl::Seconds(20));
  EXPECT_TRUE(Offered().ok());
}

TEST_F(HostDoorTest, AConnectionThatSaysNothingIsDroppedAfterAWhile) {
  const int silent = Say("");
  Offer({1});
  ExpectEnters(1);
  EXPECT_TRUE(Offered().ok());
  close(silent);
}

TEST_F(HostDoorTest, TheDeadlineNamesWhoDidNotCome) {
  Offer({1, 2, 3}, TermsOf("secret", 7, absl::Milliseconds(700)));
  ExpectEnters(2);
  EXPECT_EQ(Offered(), absl::DeadlineExceededError("rank 1, 3 did not connect to this host's first rank in time"));
}

TEST_F(HostDoorTest, WhoIsNotAnsweredSaysSo) {
  EXPECT_EQ(Enter(1, TermsOf("secret", 7, absl::Milliseconds(50))).status(),
            absl::DeadlineExceededError(absl::StrCat("the host's first rank did not answer at ", door_->endpoint())));
}

// As where another user of the host has filled the door's backlog.
TEST_F(HostDoorTest, AFullBacklogHoldsNobodyBeyondTheDeadline) {
  const std::string endpoint = absl::StrCat("unix-abstract:farandole-full-", getpid());
  const auto [address, length] = AddressOf(endpoint);
  const auto* to = reinterpret_cast<const struct sockaddr*>(&address);
  const int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(door, to, length), 0);
  ASSERT_EQ(listen(door, 0), 0);
  std::vector<int> strangers;
  do {
    strangers.push_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  } while (connect(strangers.back(), to, length) == 0);
  ASSERT_EQ(errno, EAGAIN);
  EXPECT_EQ(HostDoor::Enter(endpoint, TermsOf("secret", 7, absl::Milliseconds(50)), 1).status(),
            absl::DeadlineExceededError(absl::StrCat("the host's first rank did not answer at ", endpoint)));
  HostDoor::Terms terms = TermsOf("secret", 7);
  int asked = 0;
  terms.give_up = [&asked] { return ++asked < 3 ? absl::OkStatus() : absl::AbortedError("enough"); };
  EXPECT_EQ(HostDoor::Enter(endpoint, terms, 1).status(), absl::AbortedError("enough"));
  // When there is room again, it gets in.
  terms.give_up = [] { return absl::OkStatus(); };
  std::thread answering([door, &strangers] {
    int connection = accept(door, nullptr, nullptr);
    for (size_t i = 0; i + 1 < strangers.size(); ++i) close(std::exchange(connection, accept(door, nullptr, nullptr)));
    char greeting[32];
    EXPECT_EQ(recv(connection, greeting, sizeof(greeting), MSG_WAITALL), static_cast<ssize_t>(sizeof(greeting)));
    close(connection);
    close(door);
  });
  EXPECT_FALSE(HostDoor::Enter(endpoint, terms, 1).ok());
  answering.join();
  for (const int stranger : strangers) close(stranger);
}

TEST_F(HostDoorTest, BothSidesGiveUpWhenTold) {
  HostDoor::Terms terms = TermsOf("secret", 7);
  terms.give_up = [] { return absl::AbortedError("enough"); };
  EXPECT_EQ(Enter(1, terms).status(), absl::AbortedError("enough"));
  EXPECT_EQ(door_->Offer(terms, memory_->fd(), {1}), absl::AbortedError("enough"));
}

TEST_F(HostDoorTest, AnEndpointThatIsNoneOrClosedIsNamed) {
  EXPECT_EQ(HostDoor::Enter("tcp:1.2.3.4:5", TermsOf("secret", 7), 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  const std::string endpoint = door_->endpoint();
  door_.reset();
  EXPECT_EQ(HostDoor::Enter(endpoint, TermsOf("secret", 7), 1).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(HostDoorTest, SignalsDoNotDisturbAHandshake) {
  struct sigaction ignore = {};
  ignore.sa_handler = [](int) {};
  struct sigaction before = {};
  ASSERT_EQ(sigaction(SIGUSR1, &ignore, &before), 0);
  for (int round = 0; round < 100; ++round) {
    Offer({1});
    std::atomic<bool> is_in{false};
    std::thread peer([&] {
      ExpectEnters(1);
      is_in.store(true);
    });
    while (!is_in.load()) {
      pthread_kill(peer.native_handle(), SIGUSR1);
      pthread_kill(offer_.native_handle(), SIGUSR1);
      std::this_thread::yield();
    }
    peer.join();
    ASSERT_TRUE(Offered().ok());
    if (HasFailure()) break;
  }
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(EpochMemoryTest, IsZeroSharedAndOfTheSizeThatWasAgreed) {
  absl::StatusOr<std::unique_ptr<EpochMemory>> made = EpochMemory::Create(2 * kBytes);
  ASSERT_TRUE(made.ok()) << made.status();
  for (size_t byte = 0; byte < 2 * kBytes; ++byte) ASSERT_EQ((*made)->data()[byte], 0);
  absl::StatusOr<std::unique_ptr<EpochMemory>> mapped = EpochMemory::Map(dup((*made)->fd()), 2 * kBytes);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  (*made)->data()[kBytes] = 'x';
  EXPECT_EQ((*mapped)->data()[kBytes], 'x');
  EXPECT_EQ(EpochMemory::Map(dup((*made)->fd()), kBytes).status(),
            absl::InvalidArgumentError("the epoch's shared memory has 8192 bytes where 4096 are expected"));
}

}  // namespace
}  // namespace farandole
