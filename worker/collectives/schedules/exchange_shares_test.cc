#include "worker/collectives/schedules/exchange_shares.h"

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using Sizes = std::vector<int>;

const std::vector<Sizes>& Shapes() {
  static const auto& shapes = *new std::vector<Sizes>{
      {1, 1}, {2, 2}, {3, 1, 2}, {2, 3}, {4, 4, 4}, {1, 1, 1, 1, 1, 1, 1, 1}, {8, 7, 8, 7, 8, 7, 8, 7}};
  return shapes;
}

std::string Name(const Sizes& sizes, int64_t count, int64_t element_bytes) {
  return absl::StrCat(count, " elements of ", element_bytes, " B on ", absl::StrJoin(sizes, "+"));
}

// Whether the pieces follow each other and end where the whole does.
void ExpectCovers(const Piece& whole, const std::vector<Piece>& pieces, const std::string& name) {
  int64_t next = whole.offset;
  for (const Piece& piece : pieces) {
    ASSERT_EQ(piece.offset, next) << name;
    ASSERT_GE(piece.count, 0) << name;
    next += piece.count;
  }
  ASSERT_EQ(next, whole.offset + whole.count) << name;
}

void ExpectIsWhole(const Sizes& sizes, int64_t count, int64_t element_bytes) {
  const std::string name = Name(sizes, count, element_bytes);
  const ExchangeShares shares(GroupShape(0, sizes), count, element_bytes);
  std::vector<Piece> chunks;
  for (int64_t chunk = 0; chunk < shares.chunks(); ++chunk) {
    chunks.push_back(shares.ChunkOf(chunk));
    ASSERT_LE(chunks.back().count, shares.most_in_chunk()) << name;
    ASSERT_LE(shares.most_in_chunk() * element_bytes, ExchangeShares::kLoneChunkBytes) << name;
    std::vector<Piece> owned;
    for (int owner = 0; owner < shares.owners(); ++owner) {
      owned.push_back(shares.ShareOf(chunk, owner));
      std::vector<Piece> parts;
      for (int host = 0; host < shares.hosts(); ++host) {
        parts.push_back(shares.PartOf(chunk, owner, host));
        ASSERT_LE(parts.back().count, shares.most_in_part()) << name;
      }
      if (shares.has_one_phase()) {
        ASSERT_EQ(parts.back().count, owned.back().count) << name;
      } else {
        ExpectCovers(owned.back(), parts, name);
      }
    }
    ExpectCovers(chunks.back(), owned, name);
  }
  ExpectCovers({Buffer::kWork, 0, count}, chunks, name);
}

TEST(ExchangeSharesTest, PartsMakeUpSharesAndSharesChunksAndChunksAllElements) {
  for (const Sizes& sizes : Shapes()) {
    for (const int64_t element_bytes : {1, 2, 4, 8}) {
      for (const int64_t count : {0, 1, 7, 1001, 16'384, 16'385, 70'001, 262'144, 1'000'003}) {
        ExpectIsWhole(sizes, count, element_bytes);
      }
    }
  }
}

TEST(ExchangeSharesTest, AllRanksHaveTheSame) {
  const Sizes sizes = {3, 1, 2};
  const ExchangeShares first(GroupShape(0, sizes), 100'000, 4);
  for (int position = 1; position < 6; ++position) {
    const ExchangeShares other(GroupShape(position, sizes), 100'000, 4);
    ASSERT_EQ(other.chunks(), first.chunks());
    ASSERT_EQ(other.owners(), 1);
    for (int host = 0; host < 3; ++host) {
      EXPECT_EQ(other.PartOf(0, 0, host).offset, first.PartOf(0, 0, host).offset);
      EXPECT_EQ(other.PartOf(0, 0, host).count, first.PartOf(0, 0, host).count);
    }
  }
}

TEST(ExchangeSharesTest, FewElementsTakeOnePhaseAndOneOwner) {
  const ExchangeShares few(GroupShape(0, Sizes{2, 2}), 16'384, 4);
  EXPECT_TRUE(few.has_one_phase());
  EXPECT_EQ(few.owners(), 1);
  EXPECT_EQ(few.chunks(), 1);
  EXPECT_FALSE(ExchangeShares(GroupShape(0, Sizes{2, 2}), 16'385, 4).has_one_phase());
  // The bytes that a host sends count, and it sends to each other one.
  EXPECT_FALSE(ExchangeShares(GroupShape(0, Sizes{1, 1, 1}), 16'384, 4).has_one_phase());
}

TEST(ExchangeSharesTest, RanksThatShareAHostHaveChunksThatFitAStage) {
  EXPECT_LE(ExchangeShares(GroupShape(0, Sizes{2, 1}), 1 << 26, 4).most_in_chunk() * 4,
            ExchangeShares::kSharedChunkBytes);
  EXPECT_EQ(ExchangeShares(GroupShape(0, Sizes{2, 2}), 1 << 26, 4).owners(), 2);
}

}  // namespace
}  // namespace farandole
