#include "server/edge/messages/begun_messages.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kMost = 128 << 10;
constexpr int64_t kTooMuch = kMost + (32 << 10);
constexpr int kNow = 0;
constexpr int kLimitMs = 30'000;

// A connection over loopback, of which the server's side is the coordinator's.
class Pair {
 public:
  Pair() {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in where = {};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(where);
    EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&where), bytes), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&where), &bytes), 0);
    client_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(client_, reinterpret_cast<sockaddr*>(&where), bytes), 0);
    server_ = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    sockaddr_in own = {};
    EXPECT_EQ(getsockname(client_, reinterpret_cast<sockaddr*>(&own), &bytes), 0);
    name_ = absl::StrCat("ipv4:127.0.0.1:", ntohs(own.sin_port));
    close(listener);
  }
  ~Pair() {
    close(client_);
    CloseServer();
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  const std::string& name() const { return name_; }
  int server() const { return server_; }
  void CloseServer() {
    if (server_ >= 0) close(std::exchange(server_, -1));
  }
  void Send(size_t bytes) const {
    const std::string data(bytes, 'x');
    EXPECT_EQ(send(client_, data.data(), data.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
    // Until it is there.
    std::string came(bytes, 0);
    EXPECT_EQ(recv(server_, came.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
  }
  bool IsEnded(int limit_ms = kNow) const {
    pollfd one = {client_, POLLIN, 0};
    return poll(&one, 1, limit_ms) == 1;
  }

 private:
  int client_ = -1;
  int server_ = -1;
  std::string name_;
};

class BegunMessagesTest : public ::testing::Test {
 protected:
  BegunMessages::Call BeginOn(const Pair& pair, const std::string& owner) {
    EXPECT_TRUE(begun_.Add(pair.name(), pair.server()));
    return begun_.Begin(pair.name(), owner);
  }
  void Look(absl::Duration later = absl::ZeroDuration()) { begun_.Look(start_ + later); }

  const absl::Time start_ = SteadyNow();
  std::vector<std::string> ended_;
  BegunMessages begun_{
      kMost,
      [this](const std::string& owner, int64_t bytes) { ended_.push_back(absl::StrCat(owner, ": ", bytes >> 10)); },
      /*has_thread=*/false};
};

TEST_F(BegunMessagesTest, TheConnectionWithMostEndsOfTheOwnerWithMost) {
  const Pair some, more, most;
  const auto first = BeginOn(some, "two");
  const auto second = BeginOn(more, "two");
  const auto third = BeginOn(most, "one");
  some.Send(60 << 10);
  more.Send(70 << 10);
  most.Send(90 << 10);
  Look();
  EXPECT_THAT(ended_, ElementsAre("two: 54")) << "16 KiB of each are in nobody's sum";
  EXPECT_TRUE(more.IsEnded(kLimitMs));
  EXPECT_FALSE(some.IsEnded());
  EXPECT_FALSE(most.IsEnded());
}

TEST_F(BegunMessagesTest, WholeMessagesDoNotCount) {
  const Pair pair;
  auto stream = BeginOn(pair, "team");
  for (int i = 0; i < 3; ++i) {
    pair.Send(100 << 10);
    stream.OnMessage(100 << 10);
    Look();
    ASSERT_FALSE(pair.IsEnded()) << i;
  }
  pair.Send(kTooMuch);
  Look();
  EXPECT_TRUE(pair.IsEnded(kLimitMs)) << "what follows them does";
}

TEST_F(BegunMessagesTest, MessagesOfOtherCallsDoNotCount) {
  const Pair pair;
  const auto quiet = BeginOn(pair, "team");
  {
    auto call = begun_.Begin(pair.name(), "team");
    pair.Send(kTooMuch);
    call.OnMessage(kTooMuch);
  }
  pair.Send(64 << 10);
  Look();
  EXPECT_FALSE(pair.IsEnded());
}

TEST_F(BegunMessagesTest, AMessageIsTakenOffOnceHoweverTheCallsTakeTurns) {
  const Pair pair;
  auto first = BeginOn(pair, "team");
  auto second = begun_.Begin(pair.name(), "team");
  pair.Send(100 << 10);
  second.OnMessage(1);
  pair.Send(1 << 10);
  first.OnMessage(101 << 10);
  Look();
  pair.Send(kTooMuch);
  { auto third = begun_.Begin(pair.name(), "team"); }
  Look();
  EXPECT_TRUE(pair.IsEnded(kLimitMs));
}

TEST_F(BegunMessagesTest, MessagesForgiveLittle) {
  const Pair pair;
  auto stream = BeginOn(pair, "team");
  // Each may have had frames and headers of some 60 bytes around it. Nothing is saved up of that.
  for (int i = 0; i < 2000; ++i) {
    pair.Send(10);
    stream.OnMessage(5);
  }
  Look();
  pair.Send(kTooMuch);
  for (int i = 0; i < 100; ++i) stream.OnMessage(1);
  Look();
  EXPECT_TRUE(pair.IsEnded(kLimitMs)) << "as by headers without an end, behind messages that are read late";
}

TEST_F(BegunMessagesTest, ConnectionsWithoutAMessageCountFromTheirFirstToken) {
  const Pair stranger, known;
  EXPECT_TRUE(begun_.Add(stranger.name(), stranger.server()));
  { const auto refused = BeginOn(known, "team"); }
  Look();
  stranger.Send(kTooMuch);
  known.Send(kTooMuch);
  Look();
  EXPECT_FALSE(stranger.IsEnded()) << "others count strangers";
  EXPECT_TRUE(known.IsEnded(kLimitMs));
}

TEST_F(BegunMessagesTest, CallsThatHaveEndedHoldNothing) {
  const Pair pair;
  for (int i = 0; i < 8; ++i) {
    const auto refused = i == 0 ? BeginOn(pair, "team") : begun_.Begin(pair.name(), "team");
    pair.Send(48 << 10);
  }
  Look();
  EXPECT_TRUE(pair.IsEnded(kLimitMs)) << "that is more than headers of refused calls have";

  const Pair other;
  for (int i = 0; i < 8; ++i) {
    {
      const auto refused = i == 0 ? BeginOn(other, "team") : begun_.Begin(other.name(), "team");
      other.Send(48 << 10);
    }
    Look();
  }
  EXPECT_FALSE(other.IsEnded());
}

TEST_F(BegunMessagesTest, ADroppedMessageCountsAndLaterHeadersDoNot) {
  const Pair pair;
  {
    const auto refused = BeginOn(pair, "team");
    pair.Send(100 << 10);
  }
  for (int i = 0; i < 8; ++i) {
    Look();
    const auto refused = begun_.Begin(pair.name(), "team");
    pair.Send(48 << 10);
  }
  Look();
  EXPECT_FALSE(pair.IsEnded()) << "100 KiB are owed";
  pair.Send(64 << 10);
  Look();
  EXPECT_TRUE(pair.IsEnded(kLimitMs));
}

TEST_F(BegunMessagesTest, MessagesBringLittleInASecond) {
  const Pair pair;
  auto stream = BeginOn(pair, "team");
  Look();
  for (int i = 0; i < 4000; ++i) {
    pair.Send(60);
    stream.OnMessage(5);
  }
  Look(absl::Seconds(1));
  EXPECT_TRUE(pair.IsEnded(kLimitMs)) << "200 KB beside messages in a second";
}

TEST_F(BegunMessagesTest, CallsThatHaveEndedBesideAnOpenOneCount) {
  const Pair pair;
  const auto stream = BeginOn(pair, "team");
  for (int i = 0; i < 4; ++i) {
    const auto refused = begun_.Begin(pair.name(), "team");
    pair.Send(48 << 10);
    Look();
  }
  EXPECT_TRUE(pair.IsEnded(kLimitMs)) << "their bytes may be the stream's";
}

TEST_F(BegunMessagesTest, PingsOfADayDoNotCount) {
  const Pair pair;
  const auto quiet = BeginOn(pair, "team");
  Look();
  pair.Send(kTooMuch);
  Look(absl::Hours(24));
  EXPECT_FALSE(pair.IsEnded());
}

TEST_F(BegunMessagesTest, AnotherConnectionWithTheDescriptorIsNotEnded) {
  Pair first;
  const Pair second;
  const int descriptor = first.server();
  const auto call = BeginOn(first, "team");
  first.CloseServer();
  ASSERT_EQ(dup2(second.server(), descriptor), descriptor);
  second.Send(kTooMuch);
  Look();
  EXPECT_FALSE(second.IsEnded());
  close(descriptor);
}

TEST_F(BegunMessagesTest, TwoConnectionsOfOneNameAreNotTaken) {
  Pair first;
  const Pair second;
  const auto call = BeginOn(first, "team");
  EXPECT_FALSE(begun_.Add(first.name(), second.server())) << "gRPC would not tell their calls apart";
  first.CloseServer();
  EXPECT_TRUE(begun_.Add(first.name(), second.server()));
}

TEST_F(BegunMessagesTest, ItLooksByItself) {
  BegunMessages begun(kMost, [](const std::string&, int64_t) {});
  const Pair pair;
  begun.Add(pair.name(), pair.server());
  const auto call = begun.Begin(pair.name(), "team");
  pair.Send(kTooMuch);
  EXPECT_TRUE(pair.IsEnded(kLimitMs));
}

TEST_F(BegunMessagesTest, AConnectionThatNobodyKnowsIsNotCounted) {
  const Pair pair;
  auto call = begun_.Begin(pair.name(), "team");
  pair.Send(kTooMuch);
  call.OnMessage(1);
  Look();
  EXPECT_FALSE(pair.IsEnded());
}

}  // namespace
}  // namespace farandole
