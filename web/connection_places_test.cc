#include "web/connection_places.h"

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

}  // namespace
}  // namespace farandole
