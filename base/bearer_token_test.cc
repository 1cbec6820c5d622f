#include "base/bearer_token.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(BearerTokenTest, TheSchemeIsReadInAnyCaseAndBlanksAroundTheTokenAreNoPartOfIt) {
  EXPECT_EQ(BearerToken("Bearer secret"), "secret");
  EXPECT_EQ(BearerToken("bEARER  secret "), "secret");
  EXPECT_EQ(BearerToken("bearer two words"), "two words");
}

TEST(BearerTokenTest, AnEmptyTokenIsToldFromAnotherScheme) {
  EXPECT_EQ(BearerToken("Bearer "), "");
  EXPECT_EQ(BearerToken("Bearer"), std::nullopt);
  EXPECT_EQ(BearerToken("Bearersecret"), std::nullopt);
  EXPECT_EQ(BearerToken("Basic c2VjcmV0"), std::nullopt);
  EXPECT_EQ(BearerToken(""), std::nullopt);
}

}  // namespace
}  // namespace farandole
