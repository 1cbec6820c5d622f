#include "deploy/bench/tile.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::bench {
namespace {

constexpr size_t kCount = 100'000;

TEST(TileTest, SumsAreThoseOfTheRanksContributions) {
  constexpr int kSize = 5;
  constexpr uint64_t kTurn = 300;
  std::vector<float> sum(kCount);
  std::vector<float> own(kCount);
  for (int rank = 0; rank < kSize; ++rank) {
    Tile::OfRank(DType::kF32, rank, kSize).Fill(own.data(), kCount, kTurn);
    for (size_t i = 0; i < kCount; ++i) sum[i] += own[i];
  }
  EXPECT_EQ(Tile::Reduced(DType::kF32, ReduceOp::kSum, kSize).CountWrong(sum.data(), kCount, kTurn), 0);
  sum[kCount - 1] += 1;
  sum[7] = -1;
  EXPECT_EQ(Tile::Reduced(DType::kF32, ReduceOp::kSum, kSize).CountWrong(sum.data(), kCount, kTurn), 2);
}

TEST(TileTest, LeastAndGreatestAreThoseOfTheRanks) {
  std::vector<int8_t> ranks[2] = {std::vector<int8_t>(kCount), std::vector<int8_t>(kCount)};
  for (int rank = 0; rank < 2; ++rank) Tile::OfRank(DType::kI8, rank, 2).Fill(ranks[rank].data(), kCount, 1);
  std::vector<int8_t> least(kCount);
  std::vector<int8_t> greatest(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    least[i] = std::min(ranks[0][i], ranks[1][i]);
    greatest[i] = std::max(ranks[0][i], ranks[1][i]);
  }
  EXPECT_EQ(Tile::Reduced(DType::kI8, ReduceOp::kMin, 2).CountWrong(least.data(), kCount, 1), 0);
  EXPECT_EQ(Tile::Reduced(DType::kI8, ReduceOp::kMax, 2).CountWrong(greatest.data(), kCount, 1), 0);
  EXPECT_NE(least, greatest);
}

TEST(TileTest, ShortFloatsAreTheirWholeNumbers) {
  constexpr int kSize = 3;
  std::vector<int32_t> numbers(kCount);
  std::vector<uint16_t> halves(kCount);
  std::vector<uint16_t> brains(kCount);
  Tile::Reduced(DType::kI32, ReduceOp::kSum, kSize).Fill(numbers.data(), kCount, 0);
  Tile::Reduced(DType::kF16, ReduceOp::kSum, kSize).Fill(halves.data(), kCount, 0);
  Tile::Reduced(DType::kBF16, ReduceOp::kSum, kSize).Fill(brains.data(), kCount, 0);
  constexpr uint16_t kHalves[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800, 0x4880};
  constexpr uint16_t kBrains[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110};
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(halves[i], kHalves[numbers[i]]) << numbers[i];
    ASSERT_EQ(brains[i], kBrains[numbers[i]]) << numbers[i];
  }
}

TEST(TileTest, FloatsOf8BitsAreTheirWholeNumbers) {
  constexpr int kSize = 2;
  std::vector<int32_t> numbers(kCount);
  std::vector<uint8_t> e4m3(kCount);
  std::vector<uint8_t> e5m2(kCount);
  Tile::Reduced(DType::kI32, ReduceOp::kSum, kSize).Fill(numbers.data(), kCount, 0);
  Tile::Reduced(DType::kF8E4M3, ReduceOp::kSum, kSize).Fill(e4m3.data(), kCount, 0);
  Tile::Reduced(DType::kF8E5M2, ReduceOp::kSum, kSize).Fill(e5m2.data(), kCount, 0);
  constexpr uint8_t kE4M3[] = {0, 0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c};
  constexpr uint8_t kE5M2[] = {0, 0x3c, 0x40, 0x42, 0x44, 0x45, 0x46};
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(e4m3[i], kE4M3[numbers[i]]) << numbers[i];
    ASSERT_EQ(e5m2[i], kE5M2[numbers[i]]) << numbers[i];
  }
}

TEST(TileTest, ManyRanksStayExactInSmallTypes) {
  constexpr int kSize = 300;
  std::vector<int> sum(kCount);
  std::vector<uint8_t> own(kCount);
  for (int rank = 0; rank < kSize; ++rank) {
    Tile::OfRank(DType::kU8, rank, kSize).Fill(own.data(), kCount, 0);
    for (size_t i = 0; i < kCount; ++i) sum[i] += own[i];
  }
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_LE(sum[i], 255);
    own[i] = static_cast<uint8_t>(sum[i]);
  }
  EXPECT_EQ(Tile::Reduced(DType::kU8, ReduceOp::kSum, kSize).CountWrong(own.data(), kCount, 0), 0);
}

TEST(TileTest, TurnsDiffer) {
  const Tile tile = Tile::OfRank(DType::kF64, 1, 2);
  std::vector<double> content(kCount);
  tile.Fill(content.data(), kCount, 4);
  EXPECT_GT(tile.CountWrong(content.data(), kCount, 5), kCount / 2);
}

}  // namespace
}  // namespace farandole::bench
