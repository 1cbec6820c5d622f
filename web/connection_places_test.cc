#include "web/connection_places.h"

#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <tuple>
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

// The rule, by a look at all connections.
class PlainPlaces {
 public:
  struct One {
    std::string address;
    bool is_known = false;
    bool is_awaited = true;
    uint64_t turn = 0;
  };

  ConnectionPlaces::Id Weakest() const {
    std::map<std::string, int64_t> crowds;
    for (const auto& [id, one] : all) crowds[one.address] += one.is_awaited && !one.is_known ? 1 : 0;
    ConnectionPlaces::Id weakest = 0;
    std::tuple<bool, int64_t, uint64_t> least;
    for (const auto& [id, one] : all) {
      const std::tuple<bool, int64_t, uint64_t> worth(one.is_known, one.is_known ? 0 : -crowds[one.address], one.turn);
      if (!one.is_awaited || (weakest != 0 && worth >= least)) continue;
      weakest = id;
      least = worth;
    }
    return weakest;
  }

  std::map<ConnectionPlaces::Id, One> all;
};

TEST(ConnectionPlacesTest, TheWeakestIsFoundWhateverCameBefore) {
  std::mt19937 random(7);
  ConnectionPlaces places;
  PlainPlaces plain;
  uint64_t turn = 0;
  for (int step = 0; step < 5000; ++step) {
    if (plain.all.empty() || random() % 3 == 0) {
      const std::string address = std::to_string(random() % 4);
      plain.all[places.Add(address)] = {address, false, true, ++turn};
    } else {
      const auto found = std::next(plain.all.begin(), static_cast<int64_t>(random() % plain.all.size()));
      const auto [id, one] = *found;
      const unsigned change = random() % 3;
      if (change == 0) {
        places.Remove(id);
        plain.all.erase(found);
      } else if (change == 1) {
        places.SetAnswering(id);
        found->second.is_awaited = false;
      } else {
        const bool is_known = random() % 2 == 0;
        places.SetAwaited(id, is_known);
        found->second = {one.address, is_known, true, ++turn};
      }
    }
    const ConnectionPlaces::Id weakest = plain.Weakest();
    if (weakest != 0) {
      ASSERT_EQ(places.Weakest(), weakest) << "after " << step << " steps";
    }
  }
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
