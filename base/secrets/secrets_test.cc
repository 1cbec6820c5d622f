#include "base/secrets/secrets.h"

#include <set>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(SecretsTest, RandomBytesHaveTheLengthAskedAndDiffer) {
  std::set<std::string> drawn;
  for (int i = 0; i < 100; ++i) {
    drawn.insert(SecureRandomBytes(32));
    EXPECT_EQ(drawn.begin()->size(), 32u);
  }
  EXPECT_EQ(drawn.size(), 100u);
  EXPECT_EQ(SecureRandomBytes(0), "");
}

TEST(SecretsTest, EqualMeansEveryByteAndTheLength) {
  const std::string secret("a\0b", 3);
  EXPECT_TRUE(EqualSecrets(secret, std::string("a\0b", 3)));
  EXPECT_FALSE(EqualSecrets(secret, std::string("a\0c", 3)));
  EXPECT_FALSE(EqualSecrets(secret, "a"));
  EXPECT_FALSE(EqualSecrets(secret, ""));
  EXPECT_TRUE(EqualSecrets("", ""));
}

}  // namespace
}  // namespace farandole
