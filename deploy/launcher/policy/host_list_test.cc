#include "deploy/launcher/policy/host_list.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// "a 0+2 here, b 2+1".
std::vector<std::string> Spread(const std::string& hosts, int workers) {
  auto parsed = ParseHosts(hosts);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  MarkThisMachine("node-1.example.org", &*parsed);
  std::vector<std::string> shares;
  for (const HostShare& share : SpreadWorkers(*parsed, workers)) {
    shares.push_back(absl::StrCat(share.host, " ", share.first, "+", share.count, share.is_here ? " here" : ""));
  }
  return shares;
}

std::string ErrorOf(const std::string& hosts) { return std::string(ParseHosts(hosts).status().message()); }

std::string FileError(const std::string& text) {
  return std::string(ParseHostfile(text, "hosts.txt").status().message());
}

TEST(HostListTest, WorkersFillTheSlotsInTheOrderOfTheHosts) {
  EXPECT_THAT(Spread("a:2,b:4,c:1", 7), ElementsAre("a 0+2", "b 2+4", "c 6+1"));
  EXPECT_THAT(Spread("a:2,b:4,c:1", 3), ElementsAre("a 0+2", "b 2+1"));
}

TEST(HostListTest, ThisMachineIsKnownByItsNames) {
  EXPECT_THAT(Spread("node-1:1,localhost:1,node-1.example.org:1,node-2:1", 4),
              ElementsAre("node-1 0+1 here", "localhost 1+1 here", "node-1.example.org 2+1 here", "node-2 3+1"));
  EXPECT_THAT(Spread("me@node-1:1", 1), ElementsAre("me@node-1 0+1")) << "another user";
}

TEST(HostListTest, ALoopbackAddressIsThisMachineWhereItStandsAlone) {
  EXPECT_THAT(Spread("127.0.0.1:2,b:1", 3), ElementsAre("127.0.0.1 0+2 here", "b 2+1"));
  EXPECT_THAT(Spread("[::1]:2", 2), ElementsAre("::1 0+2 here"));
  EXPECT_THAT(Spread("127.0.0.1:1,127.0.0.2:1", 2), ElementsAre("127.0.0.1 0+1", "127.0.0.2 1+1"));
}

TEST(HostListTest, WhatIsNoHostIsNamed) {
  EXPECT_THAT(ErrorOf("a"), HasSubstr("--hosts a: a host is written NAME:SLOTS, not 'a'"));
  EXPECT_THAT(ErrorOf("a:none"), HasSubstr("not 'none'"));
  EXPECT_THAT(ErrorOf("a:0"), HasSubstr("not '0'"));
  EXPECT_THAT(ErrorOf("a:1,,b:1"), HasSubstr("not ''"));
  EXPECT_THAT(ErrorOf("a:1,b:1,a:1"), HasSubstr("host a is named twice"));
  EXPECT_THAT(ErrorOf("fd00::7:1"), HasSubstr("in brackets"));
  EXPECT_THAT(ErrorOf("-oProxyCommand=x:1"), HasSubstr("is no host's name"));
  EXPECT_THAT(ErrorOf("$(id):1"), HasSubstr("'$(id)' is no host's name"));
}

TEST(HostListTest, AHostFileIsReadAsHorovodDoes) {
  const auto hosts = ParseHostfile("# the cluster\n\nnode-1 slots=2\n  node-2\tslots=4  # slow\r\n", "hosts.txt");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  ASSERT_EQ(hosts->size(), 2u);
  EXPECT_EQ((*hosts)[1].host, "node-2");
  EXPECT_EQ((*hosts)[1].slots, 4);
  EXPECT_EQ(CountSlots(*hosts), 6);
}

TEST(HostListTest, DiscoveredHostsMayHaveNoSlotsAndThereMayBeNone) {
  const auto hosts = ParseDiscovered("node-1:2\n\n node-2 \r\n[fd00::7]:3\n[fd00::8]\n", 4);
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  std::vector<std::string> named;
  for (const HostSlots& host : *hosts) named.push_back(absl::StrCat(host.host, " ", host.slots));
  EXPECT_THAT(named, ElementsAre("node-1 2", "node-2 4", "fd00::7 3", "fd00::8 4"));
  EXPECT_TRUE(ParseDiscovered("", 1)->empty());
  EXPECT_EQ(ParseDiscovered("a\nb c\n", 1).status().message(),
            "line 2 of its output: 'b c' is no host's name or address");
  EXPECT_THAT(std::string(ParseDiscovered("a\na:2\n", 1).status().message()), HasSubstr("named twice"));
}

TEST(HostListTest, AHostFilesErrorHasItsLine) {
  EXPECT_EQ(FileError("a slots=1\nb\n"), "--hostfile hosts.txt, line 2: a host is written 'NAME slots=N', not 'b'");
  EXPECT_THAT(FileError("a slots=x"), HasSubstr("line 1: a host has 1 to 65536 slots, not 'x'"));
  EXPECT_EQ(FileError("# nobody\n"), "--hostfile hosts.txt names no host");
}

TEST(HostListTest, AWorkerIsCountedAmongThoseOfItsLocalRank) {
  const std::vector<HostShare> shares = {{"a", 0, 1, false}, {"b", 1, 3, true}, {"c", 4, 2, false}};
  const auto place = [&shares](const char* host, int local_rank) {
    const CrossPlace cross = FindCrossPlace(shares, host, local_rank);
    return std::make_pair(cross.rank, cross.size);
  };
  EXPECT_EQ(place("a", 0), std::make_pair(0, 3));
  EXPECT_EQ(place("b", 0), std::make_pair(1, 3));
  EXPECT_EQ(place("c", 0), std::make_pair(2, 3));
  EXPECT_EQ(place("b", 1), std::make_pair(0, 2));
  EXPECT_EQ(place("c", 1), std::make_pair(1, 2));
  EXPECT_EQ(place("b", 2), std::make_pair(0, 1));
}

}  // namespace
}  // namespace farandole::launcher
