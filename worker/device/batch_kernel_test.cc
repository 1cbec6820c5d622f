// The kernels, as they are compiled for the host, and how work is given to them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "worker/device/batch_plan.h"
#include "worker/device/host_kernels.h"
#include "worker/kernels/scale.h"

namespace farandole {
namespace {

constexpr size_t kTile = PieceBatch::kTileBytes;

void RunKernel(const std::string& kernel, absl::Span<const GpuCopy> copies, PieceType type, double factor) {
  for (const PieceBatch& batch : PlanPieces(copies, type, factor))
    RunHostKernel(FindHostKernel(kernel), batch, batch.end_tile[batch.count - 1], PieceBatch::kThreads);
}

TEST(PlanPiecesTest, NothingNeedsNoLaunch) {
  char byte = 0;
  EXPECT_TRUE(PlanPieces({}, PieceType::kU8, 1.0).empty());
  const GpuCopy empty = {&byte, &byte, 0};
  EXPECT_TRUE(PlanPieces({empty, empty}, PieceType::kU8, 1.0).empty());
}

TEST(PlanPiecesTest, APieceHasAsManyTilesAsItsBytesWant) {
  char byte = 0;
  const std::vector<GpuCopy> copies = {
      {&byte, &byte, 1}, {&byte, &byte, 0}, {&byte, &byte, kTile}, {&byte, &byte, kTile + 1}, {&byte, &byte, 1 << 30}};
  const std::vector<PieceBatch> batches = PlanPieces(copies, PieceType::kF32, 2.0);
  ASSERT_EQ(batches.size(), 1u);
  const PieceBatch& batch = batches[0];
  EXPECT_EQ(batch.type, PieceType::kF32);
  EXPECT_EQ(batch.factor, 2.0);
  const uint32_t last = (1 << 30) / static_cast<uint32_t>(kTile);
  EXPECT_EQ(std::vector<uint32_t>(batch.end_tile, batch.end_tile + batch.count),
            (std::vector<uint32_t>{1, 2, 4, 4 + last}));
}

TEST(PlanPiecesTest, MoreThanALaunchCanHaveAreSeveral) {
  char byte = 0;
  const std::vector<PieceBatch> batches =
      PlanPieces(std::vector<GpuCopy>(2 * PieceBatch::kMostPieces + 1, {&byte, &byte, 5}), PieceType::kI8, 3.0);
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_EQ(batches[0].count, PieceBatch::kMostPieces);
  EXPECT_EQ(batches[1].end_tile[PieceBatch::kMostPieces - 1], PieceBatch::kMostPieces);
  EXPECT_EQ(batches[2].count, 1u);
  EXPECT_EQ(batches[2].end_tile[0], 1u);
  EXPECT_EQ(batches[2].type, PieceType::kI8);
  EXPECT_EQ(batches[2].factor, 3.0);
}

// Memory from which pieces are copied, and into which, with bytes between them that must stay as they are.
class CopyKernelTest : public ::testing::Test {
 protected:
  // `from` and `to`: how far each piece begins beyond a multiple of 16.
  void Add(size_t bytes, size_t from, size_t to) { pieces_.push_back({bytes, from, to}); }

  void ExpectCopied() {
    size_t room = 0;
    for (const Piece& piece : pieces_) room += piece.bytes + 64;
    // Blocks of 16 bytes, so that they begin at a multiple of that.
    std::vector<std::array<char, 16>> source(room / 16 + pieces_.size() * 3);
    std::vector<std::array<char, 16>> target(source.size());
    char* const from = source[0].data();
    char* const to = target[0].data();
    const size_t size = source.size() * 16;
    std::mt19937 random(1);
    for (size_t i = 0; i < size; ++i) from[i] = static_cast<char>(random());
    std::memset(to, '\xa5', size);
    std::vector<char> wanted(to, to + size);
    std::vector<GpuCopy> copies;
    size_t at = 0;
    for (const Piece& piece : pieces_) {
      copies.push_back({to + at + piece.to, from + at + piece.from, piece.bytes});
      std::memcpy(wanted.data() + at + piece.to, from + at + piece.from, piece.bytes);
      at += (piece.bytes + 63) / 16 * 16;
    }
    RunKernel("farandole_copy", copies, PieceType::kU8, 1.0);
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), to));
  }

 private:
  struct Piece {
    size_t bytes;
    size_t from;
    size_t to;
  };
  std::vector<Piece> pieces_;
};

TEST_F(CopyKernelTest, AnyAlignmentAndLength) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{2}, size_t{15}, size_t{16}, size_t{17}, size_t{31},
                             size_t{100}, kTile - 1, kTile, kTile + 1, 2 * kTile + 7}) {
    for (size_t from = 0; from<16; from += bytes> 100 ? 3 : 1) {
      for (size_t to = 0; to<16; to += bytes> 100 ? 5 : 1) Add(bytes, from, to);
    }
  }
  ExpectCopied();
}

TEST_F(CopyKernelTest, LargeOnesAmongSmall) {
  for (size_t i = 0; i < 400; ++i) Add(i % 150 == 7 ? 1'000'003 : i % 5, i % 16, i * 7 % 16);
  ExpectCopied();
}

// All bits of elements of one or two bytes, and many of more: extremes, their neighbours, and random ones.
template <typename Bits>
std::vector<Bits> ManyElements() {
  std::vector<Bits> elements;
  if constexpr (sizeof(Bits) <= 2) {
    for (uint32_t i = 0; i <= std::numeric_limits<Bits>::max(); ++i) elements.push_back(static_cast<Bits>(i));
  } else {
    std::mt19937_64 random(2);
    for (int shift = 0; shift < static_cast<int>(8 * sizeof(Bits)); ++shift) {
      for (const Bits power : {Bits{1} << shift, ~(Bits{1} << shift)}) {
        for (int step = -2; step <= 2; ++step) elements.push_back(power + static_cast<Bits>(step));
      }
    }
    // Infinities, NaNs of both signs and kinds, the least normal number and the greatest subnormal one.
    const uint64_t infinity = sizeof(Bits) == 4 ? 0x7f800000u : 0x7ff0000000000000u;
    const uint64_t least = sizeof(Bits) == 4 ? 0x00800000u : 0x0010000000000000u;
    const Bits sign = Bits{1} << (8 * sizeof(Bits) - 1);
    for (const uint64_t bits : {uint64_t{0}, infinity, infinity - 1, infinity + 1, infinity + infinity / 512, least,
                                least - 1, uint64_t{1}}) {
      elements.push_back(static_cast<Bits>(bits));
      elements.push_back(static_cast<Bits>(bits) | sign);
    }
    for (int i = 0; i < 20'000; ++i) elements.push_back(static_cast<Bits>(random() >> random() % 40));
  }
  return elements;
}

const double kFactors[] = {0.5,   -1.0,   0.0,     -0.0,   3.7,    -2.5,  0.1,         1e-9,  1e9,    1e300, -1e-300,
                           1e-40, 5e-324, 65504.0, 1.0e38, 1.0e-7, 1e-45, 1.0 + 1e-12, 0.999, -255.5, 2.0,   1.0 / 3};

template <typename Bits>
void ExpectScaledAsOnTheHost(DType dtype) {
  const std::vector<Bits> elements = ManyElements<Bits>();
  const auto count = static_cast<int64_t>(elements.size());
  for (const double factor : kFactors) {
    std::vector<Bits> wanted(elements.size());
    ScaleCopy(dtype, elements.data(), wanted.data(), count, factor);
    // By groups of elements, and one by one where the two do not lie alike; and in place.
    for (const size_t shift : {0, 1}) {
      std::vector<Bits> target(elements.size() + 2, 7);
      RunKernel("farandole_scale", {{target.data() + shift, elements.data(), elements.size() * sizeof(Bits)}},
                PieceTypeOf(dtype), factor);
      EXPECT_EQ(target[elements.size() + 1], 7);
      target.erase(target.begin(), target.begin() + static_cast<int64_t>(shift));
      target.resize(elements.size());
      for (size_t i = 0; i < elements.size(); ++i) {
        ASSERT_EQ(target[i], wanted[i]) << Name(dtype) << ", bits " << elements[i] << ", factor " << factor;
      }
    }
    std::vector<Bits> target = elements;
    RunKernel("farandole_scale", {{target.data() + 1, target.data() + 1, (elements.size() - 1) * sizeof(Bits)}},
              PieceTypeOf(dtype), factor);
    EXPECT_EQ(target[0], elements[0]);
    EXPECT_TRUE(std::equal(target.begin() + 1, target.end(), wanted.begin() + 1)) << Name(dtype) << " in place";
  }
}

TEST(ScaleKernelTest, EveryTypeIsScaledAsOnTheHost) {
  ExpectScaledAsOnTheHost<uint8_t>(DType::kU8);
  ExpectScaledAsOnTheHost<uint8_t>(DType::kI8);
  ExpectScaledAsOnTheHost<uint32_t>(DType::kI32);
  ExpectScaledAsOnTheHost<uint64_t>(DType::kI64);
  ExpectScaledAsOnTheHost<uint16_t>(DType::kF16);
  ExpectScaledAsOnTheHost<uint16_t>(DType::kBF16);
  ExpectScaledAsOnTheHost<uint32_t>(DType::kF32);
  ExpectScaledAsOnTheHost<uint64_t>(DType::kF64);
}

TEST(ScaleKernelTest, PiecesEndInTheMiddleOfAGroup) {
  std::vector<float> source(200'000);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i);
  std::vector<float> target(source.size(), -1.0f);
  std::vector<GpuCopy> copies;
  size_t at = 0;
  for (size_t count = 0; at + count < source.size(); count = (count * 3 + 1) % 9001) {
    copies.push_back({&target[at], &source[at], count * sizeof(float)});
    at += count;
  }
  ASSERT_GT(copies.size(), 20u);
  RunKernel("farandole_scale", copies, PieceType::kF32, 2.0);
  for (size_t i = 0; i < source.size(); ++i) ASSERT_EQ(target[i], i < at ? 2 * source[i] : -1.0f) << i;
}

}  // namespace
}  // namespace farandole
