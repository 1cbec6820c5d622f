#include "server/edge/routes/sealed_place.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::MatchesRegex;

TEST(SealedPlaceTest, APlaceIsReadBySealOnlyAndTellsNothing) {
  const PlaceSeal seal;
  const std::string sealed = seal.Seal("1:4096"), again = seal.Seal("1:4096");
  EXPECT_THAT(sealed, MatchesRegex("[A-Za-z0-9_-]+"));
  EXPECT_NE(sealed, again) << "whether the log has grown shows";
  EXPECT_EQ(sealed.size(), seal.Seal("18446744073709551615:18446744073709551615").size());
  EXPECT_EQ(*seal.Open(sealed), "1:4096");
  EXPECT_EQ(*seal.Open(again), "1:4096");
  EXPECT_EQ(seal.Seal(""), "");
  EXPECT_EQ(*seal.Open(""), "");
}

TEST(SealedPlaceTest, WhatItHasNotSealedIsRefused) {
  const PlaceSeal seal;
  const std::string sealed = seal.Seal("1:4096");
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = changed[i] == 'A' ? 'Q' : 'A';
    EXPECT_EQ(seal.Open(changed).status().code(), absl::StatusCode::kInvalidArgument) << i;
  }
  for (const char* other : {"1:4096", "else", "AAAA"})
    EXPECT_EQ(seal.Open(other).status().code(), absl::StatusCode::kInvalidArgument) << other;
  EXPECT_EQ(PlaceSeal().Open(sealed).status().code(), absl::StatusCode::kInvalidArgument) << "of another process";
}

}  // namespace
}  // namespace farandole
