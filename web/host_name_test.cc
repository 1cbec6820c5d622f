#include "web/host_name.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(HostNameTest, AddressesAndLocalhostAreOwnWithAnyPort) {
  for (const char* host : {"localhost", "LocalHost:7071", "127.0.0.1", "127.0.0.1:80", "[::1]:7071", "[::1]", ""}) {
    EXPECT_TRUE(IsOwnHost(host, {})) << host;
  }
}

TEST(HostNameTest, OtherNamesMustBeGiven) {
  for (const char* host : {"evil.example", "evil.example:7071", "localhost.evil.example", "127.0.0.1.evil.example",
                           "[::1", "[evil.example]", "farandole.example."}) {
    EXPECT_FALSE(IsOwnHost(host, {"farandole.example"})) << host;
  }
  EXPECT_TRUE(IsOwnHost("Farandole.example:443", {"a.example", "farandole.example"}));
}

}  // namespace
}  // namespace farandole
