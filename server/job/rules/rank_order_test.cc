#include "server/job/rules/rank_order.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

// Checks a rank order in another way than OrderRanks makes it.
void ExpectRightOrder(const std::vector<Candidate>& candidates) {
  const std::vector<size_t> order = OrderRanks(candidates);
  ASSERT_EQ(order.size(), candidates.size());
  EXPECT_EQ(std::set<size_t>(order.begin(), order.end()).size(), order.size());
  std::map<std::string, uint32_t> least;
  for (const Candidate& candidate : candidates) {
    const auto [it, is_new] = least.try_emplace(candidate.host_id, candidate.launch_index);
    if (!is_new) it->second = std::min(it->second, candidate.launch_index);
  }
  std::set<std::string> finished;
  for (size_t rank = 1; rank < order.size(); ++rank) {
    const Candidate& before = candidates[order[rank - 1]];
    const Candidate& after = candidates[order[rank]];
    if (before.host_id == after.host_id) {
      EXPECT_LE(before.launch_index, after.launch_index);
      if (before.launch_index == after.launch_index) {
        EXPECT_LT(order[rank - 1], order[rank]);
      }
      continue;
    }
    EXPECT_TRUE(finished.insert(before.host_id).second) << "host " << before.host_id << " is in two places";
    EXPECT_LE(least[before.host_id], least[after.host_id]);
    const auto first_with_least = [&](const std::string& host) {
      return std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
        return candidate.host_id == host && candidate.launch_index == least[host];
      });
    };
    if (least[before.host_id] == least[after.host_id]) {
      EXPECT_LT(first_with_least(before.host_id), first_with_least(after.host_id));
    }
  }
}

TEST(OrderRanksTest, HoldsForAllArrangementsOfUpToFiveWorkersOnThreeHosts) {
  constexpr int kHosts = 3, kIndices = 3;
  for (int size = 0; size <= 5; ++size) {
    int arrangements = 1;
    for (int i = 0; i < size; ++i) arrangements *= kHosts * kIndices;
    for (int arrangement = 0; arrangement < arrangements; ++arrangement) {
      std::vector<Candidate> candidates;
      for (int i = 0, rest = arrangement; i < size; ++i, rest /= kHosts * kIndices) {
        candidates.push_back(
            {std::string(1, static_cast<char>('a' + rest % kHosts)), static_cast<uint32_t>(rest / kHosts % kIndices)});
      }
      ExpectRightOrder(candidates);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(OrderRanksTest, FollowsTheLaunchIndexWhateverTheOrderOfJoining) {
  std::vector<uint32_t> joined = {0, 1, 2, 3, 4, 5};
  do {
    std::vector<Candidate> candidates;
    for (const uint32_t index : joined) candidates.push_back({index < 3 ? "x" : "a", index});
    const std::vector<size_t> order = OrderRanks(candidates);
    for (uint32_t rank = 0; rank < order.size(); ++rank) EXPECT_EQ(candidates[order[rank]].launch_index, rank);
  } while (std::next_permutation(joined.begin(), joined.end()));
}

TEST(OrderRanksTest, SurvivorsComeFirstByTheirOldRanksWhereHostsLetThem) {
  // Five workers: which of three hosts each is on, and which of them are survivors; their old ranks go against the
  // order of joining and against the launch indices.
  for (int hosts = 0; hosts < 243; ++hosts) {
    for (uint32_t survivors = 0; survivors < 32; ++survivors) {
      std::vector<Candidate> candidates;
      for (int i = 0, code = hosts; i < 5; ++i, code /= 3) {
        candidates.push_back({std::string(1, static_cast<char>('a' + code % 3)), static_cast<uint32_t>(i)});
        if ((survivors >> i & 1) != 0) candidates.back().old_rank = 9 - i;
      }
      const std::vector<size_t> order = OrderRanks(candidates);
      const auto precedes = [&](const Candidate& a, const Candidate& b) {
        if (a.old_rank.has_value() != b.old_rank.has_value()) return a.old_rank.has_value();
        return a.old_rank.has_value() ? *a.old_rank < *b.old_rank : a.launch_index < b.launch_index;
      };
      const auto first = std::min_element(candidates.begin(), candidates.end(), precedes);
      EXPECT_EQ(&candidates[order[0]], &*first);
      std::set<std::string> seen;
      for (size_t rank = 1; rank < order.size(); ++rank) {
        const Candidate& before = candidates[order[rank - 1]];
        const Candidate& after = candidates[order[rank]];
        if (before.host_id == after.host_id) {
          EXPECT_TRUE(precedes(before, after));
        } else {
          EXPECT_TRUE(seen.insert(before.host_id).second);
        }
      }
    }
  }
}

}  // namespace
}  // namespace farandole
