#include "web/connection_places.h"

#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(ConnectionPlacesTest, TheLongestAwaitedStrangerGivesWayFirst) {
  ConnectionPlaces places;
  const auto first = places.Add("a");
  const auto second = places.Add("a");
  EXPECT_EQ(places.Weakest(), first);
  places.SetAnswering(first);
  EXPECT_EQ(places.Weakest(), second);
  places.SetAwaited(first, /*is_known=*/false);
  EXPECT_EQ(places.Weakest(), second) << "it has been awaited for longer";
  places.Remove(second);
  EXPECT_EQ(places.Weakest(), first);
}

TEST(ConnectionPlacesTest, TheAddressWithMostStrangersGivesWayBeforeOthers) {
  ConnectionPlaces places;
  places.Add("quiet");
  const auto first = places.Add("crowd");
  places.Add("crowd");
  EXPECT_EQ(places.Weakest(), first);
}

TEST(ConnectionPlacesTest, AddressesOfAnIpv6NetworkCountAsOne) {
  ConnectionPlaces places;
  places.Add("2001:db8:0:1::1");
  const auto first = places.Add("2001:db8:0:7::1");
  places.Add("2001:db8:0:7::2");
  EXPECT_EQ(places.Weakest(), first);
}

TEST(ConnectionPlacesTest, AConnectionWithATokenGivesWayLast) {
  ConnectionPlaces places;
  const auto known = places.Add("a");
  places.SetAnswering(known);
  places.SetAwaited(known, /*is_known=*/true);
  const auto stranger = places.Add("b");
  EXPECT_EQ(places.Weakest(), stranger);
  places.SetAnswering(stranger);
  EXPECT_EQ(places.Weakest(), known);
  places.SetAnswering(known);
  EXPECT_EQ(places.Weakest(), 0u) << "both are being answered";
  EXPECT_EQ(places.size(), 2u);
}

TEST(ConnectionPlacesTest, AStrangerIsWhoIsAwaitedWithoutAToken) {
  ConnectionPlaces places;
  const auto one = places.Add("a");
  const auto other = places.Add("b");
  EXPECT_EQ(places.strangers(), 2u);
  places.SetAnswering(one);
  EXPECT_EQ(places.strangers(), 1u);
  places.SetAwaited(one, /*is_known=*/true);
  EXPECT_EQ(places.strangers(), 1u);
  places.SetAwaited(one, /*is_known=*/false);
  EXPECT_EQ(places.strangers(), 2u);
  places.Remove(other);
  places.Remove(other);
  places.Remove(one);
  EXPECT_EQ(places.strangers(), 0u);
}

TEST(ConnectionPlacesTest, WhereAllAreBeingAnsweredATenantWithMostOfThemGivesWay) {
  ConnectionPlaces places;
  std::vector<ConnectionPlaces::Id> greedy;
  for (int i = 0; i < 3; ++i) {
    greedy.push_back(places.Add("a"));
    places.SetAnswering(greedy.back());
    places.SetOwner(greedy.back(), "greedy");
  }
  for (int i = 0; i < 2; ++i) {
    const auto quiet = places.Add("b");
    places.SetAnswering(quiet);
    places.SetOwner(quiet, "quiet");
  }
  EXPECT_EQ(places.Weakest(), greedy[2]) << "its newest";
  places.Remove(greedy[2]);
  EXPECT_EQ(places.Weakest(), 0u) << "nobody has more than half";
}

}  // namespace
}  // namespace farandole
