#include "base/secrets/hkdf.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/sha256.h"

namespace farandole {
namespace {

constexpr size_t kMostBytes = 255 * kSha256Bytes;

}  // namespace

std::string HkdfSha256(absl::string_view key, absl::string_view salt, absl::string_view info, size_t bytes) {
  FD_CHECK(bytes > 0 && bytes <= kMostBytes) << bytes << " bytes of HKDF-SHA256";
  const std::string extracted = HmacSha256(salt, key);
  std::string expanded, block;
  for (int counter = 1; expanded.size() < bytes; ++counter) {
    block = HmacSha256(extracted, absl::StrCat(block, info, std::string(1, static_cast<char>(counter))));
    expanded += block;
  }
  expanded.resize(bytes);
  return expanded;
}

}  // namespace farandole
