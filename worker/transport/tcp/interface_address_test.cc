#include "worker/transport/tcp/interface_address.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

InterfaceAddress On(const std::string& interface, const std::string& host) { return {interface, *ParseHost(host)}; }

const std::vector<InterfaceAddress>& Host() {
  static const auto* const host = new std::vector<InterfaceAddress>{
      On("lo", "127.0.0.1"),  On("lo", "::1"),           On("usb0", "169.254.1.2"), On("eth0", "2001:db8::7"),
      On("eth0", "10.0.0.7"), On("eth1", "192.168.7.7"), On("eth1", "fd00::7")};
  return *host;
}

std::vector<std::string> Chosen(const std::vector<InterfaceAddress>& all, const std::vector<std::string>& wanted) {
  const absl::StatusOr<std::vector<InterfaceAddress>> chosen = ChooseAddresses(all, wanted);
  EXPECT_TRUE(chosen.ok()) << chosen.status();
  std::vector<std::string> hosts;
  if (chosen.ok()) {
    for (const InterfaceAddress& one : *chosen) hosts.push_back(one.address.Host());
  }
  return hosts;
}

using Hosts = std::vector<std::string>;

TEST(ChooseAddressesTest, TheLikeliestComeFirstAndTheLoopbackNotAtAll) {
  EXPECT_EQ(Chosen(Host(), {}), (Hosts{"10.0.0.7", "192.168.7.7", "2001:db8::7", "fd00::7", "169.254.1.2"}));
}

TEST(ChooseAddressesTest, TheLoopbackServesWhereThereIsNothingElseOrItIsNamed) {
  EXPECT_EQ(Chosen({On("lo", "127.0.0.1"), On("lo", "::1")}, {}), (Hosts{"127.0.0.1", "::1"}));
  EXPECT_EQ(Chosen(Host(), {"lo", "eth0"}), (Hosts{"10.0.0.7", "2001:db8::7", "127.0.0.1", "::1"}));
  EXPECT_EQ(Chosen({}, {}), Hosts{});
}

TEST(ChooseAddressesTest, InterfacesAddressesAndNetworksAreNamed) {
  EXPECT_EQ(Chosen(Host(), {"eth1"}), (Hosts{"192.168.7.7", "fd00::7"}));
  EXPECT_EQ(Chosen(Host(), {"10.0.0.7"}), (Hosts{"10.0.0.7"}));
  EXPECT_EQ(Chosen(Host(), {"192.168.0.0/16"}), (Hosts{"192.168.7.7"}));
  EXPECT_EQ(Chosen(Host(), {"10.0.0.4/30", "fd00::/9"}), (Hosts{"10.0.0.7", "fd00::7"}));
  EXPECT_EQ(Chosen(Host(), {"0.0.0.0/0"}), (Hosts{"10.0.0.7", "192.168.7.7", "169.254.1.2", "127.0.0.1"}));
}

TEST(ChooseAddressesTest, WhatFitsNothingIsNamed) {
  EXPECT_EQ(ChooseAddresses({On("lo", "127.0.0.1"), On("eth0", "10.0.0.7")}, {"eth0", "ib0"}).status(),
            absl::InvalidArgumentError(
                "no network interface of this host is or has 'ib0'; there is lo (127.0.0.1), eth0 (10.0.0.7)"));
  for (const char* wanted :
       {"", "10.0.0.8", "10.0.0.0/30", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "fe80::/64", "10.0.0.7/x", "/8"}) {
    EXPECT_EQ(ChooseAddresses(Host(), {wanted}).status().code(), absl::StatusCode::kInvalidArgument) << wanted;
  }
}

TEST(ParseEndpointTest, WhatIsWrittenIsRead) {
  for (const char* endpoint : {"tcp:10.0.0.7:4711", "tcp:[fd00::7]:1", "tcp:[::1]:65535"}) {
    const std::optional<SocketAddress> address = ParseEndpoint(endpoint);
    ASSERT_TRUE(address.has_value()) << endpoint;
    EXPECT_EQ(address->Endpoint(), endpoint);
  }
}

TEST(ParseEndpointTest, AnythingElseIsNoEndpoint) {
  for (const std::string& text :
       {std::string("tcp:10.0.0.7"), std::string("tcp:10.0.0.7:0"), std::string("tcp:10.0.0.7:65536"),
        std::string("tcp:10.0.0.7:+1"), std::string("tcp:10.0.0.7: 1"), std::string("tcp:10.0.0.7:01"),
        std::string("tcp:10.0.0:1"), std::string("tcp:node-3:1"), std::string("tcp:fd00::7:1"),
        std::string("tcp:[fd00::7:1"), std::string("tcp:[10.0.0.7]:1"), std::string("tcp:10.0.0.7\0x:1", 15),
        std::string("udp:10.0.0.7:1"), std::string("unix-abstract:x"), std::string("tcp:"), std::string(),
        std::string("tcp:10.0.0.7:99999999999999999999")}) {
    EXPECT_FALSE(ParseEndpoint(text).has_value()) << text;
  }
}

TEST(ListInterfaceAddressesTest, ThereIsTheLoopback) {
  const absl::StatusOr<std::vector<InterfaceAddress>> all = ListInterfaceAddresses();
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(Chosen(*all, {"127.0.0.0/8"}).front(), "127.0.0.1");
}

}  // namespace
}  // namespace farandole
