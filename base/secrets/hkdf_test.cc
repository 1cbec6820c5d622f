#include "base/secrets/hkdf.h"

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

// RFC 5869, test cases 1 and 3.
TEST(HkdfSha256Test, BytesAreThoseOfTheRfc) {
  const std::string key(22, '\x0b');
  const std::string salt = absl::HexStringToBytes("000102030405060708090a0b0c");
  const std::string info = absl::HexStringToBytes("f0f1f2f3f4f5f6f7f8f9");
  EXPECT_EQ(absl::BytesToHexString(HkdfSha256(key, salt, info, 42)),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  EXPECT_EQ(absl::BytesToHexString(HkdfSha256(key, "", "", 42)),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
  EXPECT_EQ(HkdfSha256(key, salt, info, 1), HkdfSha256(key, salt, info, 8160).substr(0, 1));
}

}  // namespace
}  // namespace farandole
