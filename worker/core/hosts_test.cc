#include "worker/core/hosts.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(HostsTest, NumbersHostsInTheOrderOfTheirRanks) {
  const absl::StatusOr<Hosts> hosts = Hosts::WithIds({"b", "b", "a", "c", "c", "c"});
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(hosts->size(), 6);
  EXPECT_EQ(hosts->count(), 3);
  const std::vector<int> host_of = {0, 0, 1, 2, 2, 2};
  const std::vector<int> local = {0, 1, 0, 0, 1, 2};
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(hosts->HostOf(rank), host_of[rank]);
    EXPECT_EQ(hosts->LocalIndex(rank), local[rank]);
  }
  const std::vector<int> leaders = {0, 2, 3};
  const std::vector<int> ranks = {2, 1, 3};
  for (int host = 0; host < 3; ++host) {
    EXPECT_EQ(hosts->Leader(host), leaders[host]);
    EXPECT_EQ(hosts->RanksOn(host), ranks[host]);
  }
}

TEST(HostsTest, RanksOfAHostThatAreNoNeighboursAreNamed) {
  EXPECT_EQ(Hosts::WithIds({"a", "b", "a"}).status(),
            absl::InternalError("ranks 0 and 2 are on one host, but rank 1 between them is not"));
}

TEST(HostsTest, LocalRanksAreThePlacesThatWorkersHave) {
  using Ranks = std::vector<int>;
  EXPECT_EQ(LocalRanks({}), Ranks{});
  EXPECT_EQ(LocalRanks({0, 1, 2, 3}), (Ranks{0, 1, 2, 3}));
  // Survivors come first in the order of ranks; 1 is new.
  EXPECT_EQ(LocalRanks({0, 2, 3, 1}), (Ranks{0, 2, 3, 1}));
  // It is not there yet: a worker with a place beyond the number of workers takes a remaining one.
  EXPECT_EQ(LocalRanks({0, 2, 3}), (Ranks{0, 2, 1}));
  EXPECT_EQ(LocalRanks({3, 7, 5}), (Ranks{0, 2, 1}));
  // Its worker was lost while the newcomer with place 1 was on its way, which is 1 all the same.
  EXPECT_EQ(LocalRanks({2, 3, 1}), (Ranks{2, 0, 1}));
  // No launcher has set them, or two launches serve the job.
  EXPECT_EQ(LocalRanks({0, 0, 0}), (Ranks{0, 1, 2}));
  EXPECT_EQ(LocalRanks({0, 1, 0, 1}), (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(LocalRanks({0, 65535}), (Ranks{0, 1}));
}

TEST(HostsTest, AGroupsShapeLeavesOutHostsWithoutRanksOfIt) {
  const Hosts hosts = Hosts::WithSizes({2, 1, 3});
  EXPECT_EQ(hosts.Shape({0, 1, 2, 3, 4, 5}), (std::vector<int>{2, 1, 3}));
  EXPECT_EQ(hosts.Shape({1, 3, 5}), (std::vector<int>{1, 2}));
  EXPECT_EQ(hosts.Shape({2}), (std::vector<int>{1}));
  EXPECT_EQ(Hosts::Apart(3).Shape({0, 2}), (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace farandole
