// Places for connections with a token; those without one are in server/hostile_clients_test.cc.
#include "server/edge/client_listener.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int kPlaces = 4;
constexpr size_t kBytes = 32 << 10;
constexpr int64_t kMostBegun = 1 << 20;
constexpr absl::Duration kLimit = absl::Seconds(30);

class Connection {
 public:
  explicit Connection(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where = {};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<uint16_t>(port));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&where), sizeof(where)), 0);
    sockaddr_in own = {};
    socklen_t bytes = sizeof(own);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &bytes), 0);
    name_ = absl::StrCat("ipv4:127.0.0.1:", ntohs(own.sin_port));
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // As gRPC names it.
  const std::string& name() const { return name_; }
  // Some bytes that nobody answers.
  void Send(size_t bytes) const {
    const std::string data(bytes, 'x');
    EXPECT_EQ(send(socket_, data.data(), data.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
  bool IsClosedWithin(absl::Duration limit) const {
    pollfd one = {socket_, POLLIN, 0};
    return poll(&one, 1, static_cast<int>(absl::ToInt64Milliseconds(limit))) == 1;
  }

 private:
  const int socket_;
  std::string name_;
};

class ClientListenerTest : public ::testing::Test {
 protected:
  ClientListenerTest() {
    ClientListenerOptions options;
    options.counted_from = 0;
    options.most_counted = kPlaces;
    options.most_bytes_of_strangers = kBytes;
    listener_ =
        *ClientListener::Open(*ParseListenAddress("127.0.0.1:0", "--listen"), options, &metrics_, &begun_messages_);
    listener_->Start([this](int descriptor) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        served_.push_back(descriptor);
      }
      // As gRPC does, which reads on while something comes.
      char byte = 0;
      while (reads_ && recv(descriptor, &byte, 1, 0) != 0) continue;
    });
  }
  ~ClientListenerTest() override {
    listener_->Stop();
    for (const int descriptor : served_) close(descriptor);
  }

  // A connection that was given to gRPC, and on which no token was shown.
  std::unique_ptr<Connection> Connect() {
    const size_t before = served();
    auto made = std::make_unique<Connection>(listener_->port());
    const absl::Time end = SteadyNow() + kLimit;
    while (served() == before && SteadyNow() < end) continue;
    return made;
  }
  // One on which a token of the tenant was shown.
  std::unique_ptr<Connection> Connect(const std::string& tenant, v1::Role role = v1::VIEWER) {
    std::unique_ptr<Connection> made = Connect();
    listener_->OnToken(made->name(), Access{tenant, role});
    return made;
  }
  size_t served() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return served_.size();
  }

  Metrics metrics_{"test", absl::Now()};
  BegunMessages begun_messages_{kMostBegun, [](const std::string&, int64_t) {}};
  std::atomic<bool> reads_{false};
  std::unique_ptr<ClientListener> listener_;
  std::mutex mutex_;
  std::vector<int> served_;
};

TEST(OptionsForTest, ConnectionsAreCountedByTenantBeforeDescriptorsOrMemoryEnd) {
  const ClientListenerOptions large = OptionsFor(131072, uint64_t{64} << 30);
  EXPECT_EQ(large.descriptor_limit, 131072 - 192 - 2048);
  EXPECT_EQ(large.counted_from, large.descriptor_limit / 4 * 3);
  EXPECT_EQ(large.most_counted, static_cast<size_t>(large.descriptor_limit / 16));
  const ClientListenerOptions small = OptionsFor(131072, uint64_t{2} << 30);
  EXPECT_EQ(small.descriptor_limit, large.descriptor_limit);
  EXPECT_EQ(small.counted_from, 16384) << "half of the memory, at 64 KiB for each";
  EXPECT_EQ(small.most_counted, 2048u);
}

TEST_F(ClientListenerTest, OneTenantDoesNotKeepOthersOut) {
  std::vector<std::unique_ptr<Connection>> greedy;
  for (int i = 0; i <= kPlaces; ++i) greedy.push_back(Connect("greedy"));
  EXPECT_TRUE(greedy[kPlaces]->IsClosedWithin(kLimit)) << "its newest gives way";
  const auto first = Connect("quiet");
  EXPECT_TRUE(greedy[kPlaces - 1]->IsClosedWithin(kLimit)) << "to those of others too";
  const auto second = Connect("quiet");
  EXPECT_TRUE(greedy[kPlaces - 2]->IsClosedWithin(kLimit));
  for (const Connection* kept : {greedy[0].get(), greedy[1].get(), first.get(), second.get()})
    EXPECT_FALSE(kept->IsClosedWithin(absl::ZeroDuration()));
}

TEST_F(ClientListenerTest, MembersOfTheDefaultTenantDoNotEndThoseOfTheCluster) {
  std::vector<std::unique_ptr<Connection>> greedy;
  for (int i = 0; i < kPlaces; ++i) greedy.push_back(Connect("default"));
  const auto root = Connect("default", v1::ROOT);
  EXPECT_TRUE(greedy[kPlaces - 1]->IsClosedWithin(kLimit));
  EXPECT_FALSE(root->IsClosedWithin(absl::ZeroDuration()));
}

TEST_F(ClientListenerTest, TheStrangerThatHasSentMostIsEndedWhereAllHaveSentTooMuch) {
  const auto known = Connect("team"), small = Connect(), large = Connect(), larger = Connect();
  known->Send(2 * kBytes);
  small->Send(100);
  large->Send(kBytes / 2);
  EXPECT_FALSE(large->IsClosedWithin(absl::Milliseconds(300))) << "all together are below the bound";
  larger->Send(kBytes / 2 + 1);
  EXPECT_TRUE(larger->IsClosedWithin(kLimit));
  for (const Connection* kept : {known.get(), small.get(), large.get()})
    EXPECT_FALSE(kept->IsClosedWithin(absl::Milliseconds(100)));
}

TEST_F(ClientListenerTest, AConnectionThatSendsWithoutAPauseDoesNotKeepOthersOut) {
  reads_ = true;
  const auto endless = Connect("team");
  const Connection other(listener_->port());
  EXPECT_TRUE(endless->IsClosedWithin(kLimit));
  const absl::Time end = SteadyNow() + kLimit;
  while (served() < 2 && SteadyNow() < end) continue;
  EXPECT_EQ(served(), 2u);
  listener_->Stop();  // while the other one is read
}

TEST_F(ClientListenerTest, AConnectionThatHasEndedHasNoPlace) {
  std::vector<std::unique_ptr<Connection>> first;
  for (int i = 0; i < kPlaces; ++i) first.push_back(Connect("team"));
  first.clear();
  // The listener hears of the ends on its own thread.
  const absl::Time end = SteadyNow() + kLimit;
  bool has_place = false;
  while (!has_place && SteadyNow() < end) has_place = !Connect("team")->IsClosedWithin(absl::Milliseconds(100));
  EXPECT_TRUE(has_place);
}

}  // namespace
}  // namespace farandole
