#include "base/text/client_network.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(ClientNetworkTest, OfIpv6TheNetworkCounts) {
  EXPECT_EQ(ClientNetwork("2001:db8:0:7::1"), "2001:db8:0:7::/64");
  EXPECT_EQ(ClientNetwork("2001:db8:0:7:ffff:ffff:ffff:ffff"), "2001:db8:0:7::/64");
  EXPECT_EQ(ClientNetwork("2001:db8:0:8::1"), "2001:db8:0:8::/64");
  EXPECT_EQ(ClientNetwork("fe80::1%eth0"), "fe80::/64");
  EXPECT_EQ(ClientNetwork("::1"), "::/64");
  EXPECT_EQ(ClientNetwork("64:ff9b:1::7"), "64:ff9b:1::/64") << "a prefix of one site's own";
}

TEST(ClientNetworkTest, OfIpv4TheAddressCountsHoweverItIsWritten) {
  for (const char* written : {"10.0.0.7", "::ffff:10.0.0.7", "::ffff:a00:7", "64:ff9b::10.0.0.7", "64:ff9b::a00:7"})
    EXPECT_EQ(ClientNetwork(written), "10.0.0.7") << written;
  EXPECT_EQ(ClientNetwork("::ffff:10.0.0.8"), "10.0.0.8");
}

TEST(ClientNetworkTest, OtherTextsCountAsThemselves) {
  for (const char* text : {"", "localhost", "2001:db8::/64", "10.0.0", "[::1]", "2001:db8::1::2"})
    EXPECT_EQ(ClientNetwork(text), text);
}

}  // namespace
}  // namespace farandole
