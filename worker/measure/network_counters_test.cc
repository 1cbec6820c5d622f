#include "worker/measure/network_counters.h"

#include <string>

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr char kDev[] =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier\n"
    "    lo:  777       7    0    0    0     0          0         0      777       7    0    0    0     0       0  0\n"
    "  eth0: 1000      10    0    0    0     0          0         0     2000      20    0    0    0     0       0  0\n"
    "  ib0:1 300        1    0    0    0     0          0         0        4       1    0    0    0     0       0  0\n";
constexpr char kSnmp[] =
    "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
    "Tcp: RtoAlgorithm MaxConn InSegs OutSegs RetransSegs InErrs\nTcp: 1 -1 500 600 42 0\nUdp: InDatagrams\nUdp: 3\n";

TEST(NetworkCountersTest, CountsAllInterfacesButTheLoopback) {
  const NetworkCounters counters = NetworkCounters::Parse(kDev, kSnmp);
  EXPECT_EQ(counters.received_bytes, 1001u);
  EXPECT_EQ(counters.sent_bytes, 2000u);
  EXPECT_EQ(counters.retransmits, 42u);
}

TEST(NetworkCountersTest, TextsOfAnotherKindCountNothing) {
  const NetworkCounters counters = NetworkCounters::Parse("eth0: many\nrubbish", "Tcp: RetransSegs\nTcp:");
  EXPECT_EQ(counters.received_bytes, 0u);
  EXPECT_EQ(counters.retransmits, 0u);
}

TEST(NetworkCountersTest, TheKernelOfThisMachineIsUnderstood) {
  std::string text = "  lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n";
  EXPECT_EQ(NetworkCounters::Parse(text, "").sent_bytes, 0u);
  EXPECT_LT(NetworkCounters::Read().retransmits, uint64_t{1} << 60);
}

}  // namespace
}  // namespace farandole
