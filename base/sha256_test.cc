#include "base/sha256.h"

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

// The examples of FIPS 180-4.
TEST(Sha256Test, DigestsAreThoseOfTheStandard) {
  EXPECT_EQ(absl::BytesToHexString(Sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(absl::BytesToHexString(Sha256(absl::string_view())), absl::BytesToHexString(Sha256("")));
  EXPECT_EQ(absl::BytesToHexString(Sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256Test, PiecesHaveTheDigestOfTheWhole) {
  RunningSha256 pieces;
  for (const char* piece : {"a", "", "bc"}) pieces.Add(piece);
  EXPECT_EQ(pieces.Finish(), Sha256("abc"));
  EXPECT_EQ(RunningSha256().Finish(), Sha256(""));
}

// RFC 4231, test cases 2 and 6: a key shorter and one longer than a block.
TEST(HmacSha256Test, CodesAreThoseOfTheRfc) {
  EXPECT_EQ(absl::BytesToHexString(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(absl::BytesToHexString(
                HmacSha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacSha256Test, AnEmptyKeyIsNotTheKeyOfTheLastCall) {
  const std::string empty = "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad";
  HmacSha256("Jefe", "");
  EXPECT_EQ(absl::BytesToHexString(HmacSha256(absl::string_view(), "")), empty);
  EXPECT_EQ(absl::BytesToHexString(HmacSha256("", absl::string_view())), empty);
}

TEST(WorkerSecretTest, AnIncarnationIsTheBeginningOfTheSecretsHash) {
  // printf 'farandole worker s' | sha256sum
  EXPECT_EQ(IncarnationOfSecret("s"), "52e7d6bcd593d6471c1a2fb19275160b");
  EXPECT_NE(IncarnationOfSecret(std::string("s\0", 2)), IncarnationOfSecret("s"));
}

}  // namespace
}  // namespace farandole
