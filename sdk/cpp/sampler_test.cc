#include "farandole/sampler.h"

#include <algorithm>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

// The samples that all ranks take together, sorted.
std::vector<int64_t> Together(int64_t count, int size, const DistributedSampler::Options& options, int64_t done) {
  std::vector<int64_t> all;
  for (int rank = 0; rank < size; ++rank) {
    DistributedSampler sampler(count, rank, size, options);
    sampler.Skip(done);
    const std::vector<int64_t> own = sampler.Indices();
    EXPECT_EQ(static_cast<int64_t>(own.size()), sampler.CountPerRank());
    all.insert(all.end(), own.begin(), own.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(DistributedSamplerTest, EverySampleIsTakenAndRanksGetEquallyMany) {
  for (int size = 1; size <= 8; ++size) {
    for (int64_t count = 0; count <= 20; ++count) {
      const std::vector<int64_t> all = Together(count, size, {}, 0);
      const std::set<int64_t> different(all.begin(), all.end());
      EXPECT_EQ(static_cast<int64_t>(different.size()), count);
      EXPECT_EQ(static_cast<int64_t>(all.size()), (count + size - 1) / size * size);
      const std::vector<int64_t> fewer = Together(count, size, {true, 0, true}, 0);
      EXPECT_EQ(std::adjacent_find(fewer.begin(), fewer.end()), fewer.end()) << "none is taken twice";
      EXPECT_EQ(static_cast<int64_t>(fewer.size()), count / size * size);
    }
  }
}

TEST(DistributedSamplerTest, RanksTakeTurnsWithoutShuffling) {
  EXPECT_EQ(DistributedSampler(5, 1, 2, {false, 0, false}).Indices(), (std::vector<int64_t>{1, 3, 0}));
  EXPECT_EQ(DistributedSampler(5, 1, 2, {false, 0, true}).Indices(), (std::vector<int64_t>{1, 3}));
}

TEST(DistributedSamplerTest, PassesAndSeedsHaveOrdersOfTheirOwn) {
  DistributedSampler sampler(100, 0, 1);
  const std::vector<int64_t> first = sampler.Indices();
  sampler.SetPass(1);
  EXPECT_NE(sampler.Indices(), first);
  sampler.SetPass(0);
  EXPECT_EQ(sampler.Indices(), first);
  EXPECT_NE(DistributedSampler(100, 0, 1, {true, 1, false}).Indices(), first);
  EXPECT_EQ(DistributedSampler(6, 0, 1, {true, 7, false}).Indices(),
            DistributedSampler(6, 0, 1, {true, 7, false}).Indices());
}

TEST(DistributedSamplerTest, TheOrderIsThatOfTheGoSampler) {
  DistributedSampler sampler(10, 0, 1, {true, 7, false});
  sampler.SetPass(2);
  // sdk/go/farandole/sampler_test.go holds the same.
  EXPECT_EQ(sampler.Indices(), (std::vector<int64_t>{4, 9, 1, 8, 6, 3, 7, 2, 5, 0}));
}

TEST(DistributedSamplerTest, TheRestOfAPassIsSharedOutAmongOthers) {
  DistributedSampler two(10, 0, 2, {true, 3, false});
  DistributedSampler other(10, 1, 2, {true, 3, false});
  std::set<int64_t> seen;
  for (size_t i = 0; i < 2; ++i) seen.insert({two.Indices()[i], other.Indices()[i]});
  for (const int64_t sample : Together(10, 3, {true, 3, false}, 4)) {
    EXPECT_EQ(seen.count(sample), 0u) << sample << " was done before";
  }
  const std::vector<int64_t> rest = Together(10, 3, {true, 3, false}, 4);
  EXPECT_EQ(rest.size(), 6u);
}

}  // namespace
}  // namespace farandole
