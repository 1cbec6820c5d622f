#include "base/sockets/tcp_retries.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

class TcpRetriesTest : public testing::Test {
 protected:
  void SetUp() override {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(bind(listener_, name(), sizeof address_), 0);
    ASSERT_EQ(listen(listener_, 1), 0);
    socklen_t bytes = sizeof address_;
    ASSERT_EQ(getsockname(listener_, name(), &bytes), 0);
    ASSERT_EQ(connect(connection_, name(), sizeof address_), 0);
  }
  void TearDown() override {
    close(connection_);
    close(listener_);
  }
  sockaddr* name() { return reinterpret_cast<sockaddr*>(&address_); }
  uint16_t port() const { return ntohs(address_.sin_port); }
  bool IsSooner() const {
    int on = 0;
    socklen_t bytes = sizeof on;
    EXPECT_EQ(getsockopt(connection_, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, &bytes), 0);
    return on == 1;
  }

  sockaddr_in address_ = {};
  const int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int connection_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

TEST_F(TcpRetriesTest, OnlyConnectionsToThePeerAreChanged) {
  for (const std::string& other : {absl::StrCat("ipv4:127.0.0.1:", port() + 1), absl::StrCat("ipv4:127.0.0.2:", port()),
                                   absl::StrCat("ipv6:%5B::1%5D:", port()), absl::StrCat("unix:/run/", port()),
                                   std::string("ipv4:127.0.0.1"), std::string("unknown"), std::string()}) {
    RetryConnectionsSooner(other);
    EXPECT_FALSE(IsSooner()) << other;
  }
  RetryConnectionsSooner(absl::StrCat("ipv4:127.0.0.1:", port()));
  EXPECT_TRUE(IsSooner());
}

TEST_F(TcpRetriesTest, AnAddressOfIPv6IsUnderstood) {
  RetryConnectionsSooner(absl::StrCat("ipv6:%5B::ffff:127.0.0.1%5D:", port()));
  EXPECT_TRUE(IsSooner());
}

}  // namespace
}  // namespace farandole
