#include "worker/engine/glance.h"

#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int64_t kLargest = (64 << 10) / 4;

// Of so many elements of float32.
bool IsWanted(Glance* glance, int64_t elements, OpType op = OpType::kAllreduce) {
  const std::vector<int64_t> shape = {2, elements / 2};
  const TensorView tensor = {nullptr, nullptr, shape};
  Request request;
  request.op = op;
  request.tensors = absl::MakeConstSpan(&tensor, 1);
  return glance->IsWanted(request);
}

// How many submissions go on at once before the next attempt.
int SkippedBy(Glance* glance) {
  int skipped = 0;
  while (!IsWanted(glance, 4)) ++skipped;
  return skipped;
}

TEST(GlanceTest, AttemptsThatFailBecomeRare) {
  Glance glance;
  std::vector<int> skipped;
  for (int i = 0; i < 8; ++i) {
    skipped.push_back(SkippedBy(&glance));
    glance.Note(false);
  }
  EXPECT_EQ(skipped, std::vector<int>({0, 1, 3, 7, 15, 31, 63, 63}));
}

TEST(GlanceTest, OneThatSucceedsMakesThemFrequentAgain) {
  Glance glance;
  for (int i = 0; i < 8; ++i) glance.Note(false);
  EXPECT_EQ(SkippedBy(&glance), 63);
  glance.Note(true);
  EXPECT_EQ(SkippedBy(&glance), 0);
  glance.Note(false);
  EXPECT_EQ(SkippedBy(&glance), 1);
}

TEST(GlanceTest, LargeSubmissionsGoOnAndDoNotCount) {
  Glance glance;
  EXPECT_FALSE(IsWanted(&glance, kLargest + 2));
  EXPECT_TRUE(IsWanted(&glance, kLargest));
  glance.Note(false);
  EXPECT_FALSE(IsWanted(&glance, kLargest + 2));
  EXPECT_EQ(SkippedBy(&glance), 1);
}

TEST(GlanceTest, NeitherDoThoseOfWhichOtherRanksMayHaveMore) {
  Glance glance;
  EXPECT_TRUE(IsWanted(&glance, 4, OpType::kBroadcast));
  for (const OpType op : {OpType::kAllgather, OpType::kAlltoall, OpType::kGather}) {
    EXPECT_FALSE(IsWanted(&glance, 4, op));
  }
}

}  // namespace
}  // namespace farandole
