#ifndef FARANDOLE_BASE_SHA256_H_
#define FARANDOLE_BASE_SHA256_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

inline constexpr size_t kSha256Bytes = 32;

// SHA-256 (FIPS 180-4) of `text`: kSha256Bytes bytes.
std::string Sha256(absl::string_view text);

// HMAC-SHA256 (RFC 2104) of `text` with `key`: kSha256Bytes bytes.
std::string HmacSha256(absl::string_view key, absl::string_view text);

}  // namespace farandole

#endif  // FARANDOLE_BASE_SHA256_H_
