#include "server/diagnosis/host_links.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace farandole {
namespace {

// Half a second of a host that has sent to one other.
v1::Measures Sent(uint32_t to, uint64_t busy_us, uint64_t bytes) {
  v1::Measures measures;
  measures.set_interval_us(500'000);
  measures.add_peer_hosts(to);
  measures.add_peer_sending_us(busy_us);
  measures.add_peer_bytes(bytes);
  return measures;
}

TEST(HostLinksTest, ALinkHasItsShareOfTheTimeAndItsRate) {
  HostLinks links(3, nullptr);
  links.Take(0, Sent(2, 100'000, 1'000'000), absl::Seconds(1));
  links.Take(0, Sent(2, 300'000, 3'000'000), absl::Seconds(2));
  ASSERT_EQ(links.Recent().size(), 1u);
  const HostLinks::Link link = links.Recent()[0];
  EXPECT_EQ(link.from, 0u);
  EXPECT_EQ(link.to, 2u);
  EXPECT_NEAR(link.busy, 0.4, 1e-6);
  EXPECT_NEAR(link.bytes, 4e6, 1);
  EXPECT_NEAR(link.rate, 10e6, 1);
}

TEST(HostLinksTest, HostsThatThereAreNotAndTheHostItselfCountNothing) {
  HostLinks links(3, nullptr);
  links.Take(0, Sent(3, 100'000, 1'000'000), absl::Seconds(1));
  links.Take(0, Sent(0, 100'000, 1'000'000), absl::Seconds(1));
  EXPECT_TRUE(links.Recent().empty());
}

TEST(HostLinksTest, AfterFortySecondsALinkIsForgotten) {
  HostLinks links(2, nullptr);
  links.Take(0, Sent(1, 100'000, 1'000'000), absl::Seconds(1));
  links.Take(1, Sent(0, 100'000, 1'000'000), absl::Seconds(41));
  ASSERT_EQ(links.Recent().size(), 1u);
  EXPECT_EQ(links.Recent()[0].from, 1u);
}

TEST(HostLinksTest, MemoryIsTakenByTheLinkAndGivenBack) {
  MemoryBudget budget(80);
  {
    HostLinks links(100, &budget);
    for (uint32_t to = 1; to < 10; ++to) links.Take(0, Sent(to, 1000, 1000), absl::Seconds(1));
    EXPECT_EQ(links.Recent().size(), 2u);
    EXPECT_EQ(budget.left(), 8);
  }
  EXPECT_EQ(budget.left(), 80);
}

TEST(HostLinksTest, AHostHasAtMost32) {
  HostLinks links(100, nullptr);
  for (uint32_t to = 1; to < 60; ++to) links.Take(0, Sent(to, 1000, 1000), absl::Seconds(1));
  EXPECT_EQ(links.Recent().size(), HostLinks::kMostPeers);
}

}  // namespace
}  // namespace farandole
