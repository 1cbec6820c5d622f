#include "deploy/launcher/environment/nccl_interfaces.h"

#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

absl::StatusOr<std::vector<InterfaceAddress>> Own() {
  return std::vector<InterfaceAddress>{{"lo", *ParseHost("127.0.0.1")},
                                       {"eth0", *ParseHost("10.0.0.7")},
                                       {"eth0", *ParseHost("fd00::7")},
                                       {"eth1", *ParseHost("10.1.0.7")},
                                       {"ib0", *ParseHost("192.168.1.7")}};
}

TEST(NcclInterfacesTest, AreThoseThatWorkersUse) {
  EXPECT_EQ(NcclInterfaces({"FARANDOLE_NETWORK_INTERFACES=eth0"}, Own), "=eth0");
  EXPECT_EQ(NcclInterfaces({"FARANDOLE_NETWORK_INTERFACES=eth0,eth1"}, Own), "=eth0,eth1");
  EXPECT_EQ(NcclInterfaces({"FARANDOLE_NETWORK_INTERFACES=192.168.0.0/16"}, Own), "=ib0");
  EXPECT_EQ(NcclInterfaces({"FARANDOLE_NETWORK_INTERFACES=10.1.0.7"}, Own), "=eth1");
  EXPECT_EQ(NcclInterfaces({"HOROVOD_GLOO_IFACE=eth1"}, Own), "=eth1");
}

TEST(NcclInterfacesTest, AreLeftToNcclWhereNothingIsSaidOrItIsTold) {
  EXPECT_EQ(NcclInterfaces({"PATH=/bin"}, Own), "");
  EXPECT_EQ(NcclInterfaces({"FARANDOLE_NETWORK_INTERFACES="}, Own), "");
  EXPECT_EQ(NcclInterfaces({"FARANDOLE_NETWORK_INTERFACES=wlan0"}, Own), "");
  EXPECT_EQ(NcclInterfaces({"FARANDOLE_NETWORK_INTERFACES=eth0", "NCCL_SOCKET_IFNAME=ib"}, Own), "");
}

}  // namespace
}  // namespace farandole::launcher
