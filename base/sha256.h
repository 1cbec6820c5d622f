#ifndef FARANDOLE_BASE_SHA256_H_
#define FARANDOLE_BASE_SHA256_H_

#include <openssl/types.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

inline constexpr size_t kSha256Bytes = 32;

// SHA-256 (FIPS 180-4) of `text`: kSha256Bytes bytes.
std::string Sha256(absl::string_view text);

// SHA-256 of what comes piece by piece.
class RunningSha256 {
 public:
  RunningSha256();
  void Add(absl::string_view bytes);
  // Once: 32 bytes.
  std::string Finish();

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

// HMAC-SHA256 (RFC 2104) of `text` with `key`: kSha256Bytes bytes.
std::string HmacSha256(absl::string_view key, absl::string_view text);

// A worker draws so many random bytes at its start and tells them the coordinator alone.
inline constexpr size_t kWorkerSecretBytes = 32;

// The incarnation by which the worker of `secret` is known: 32 hexadecimal digits, the beginning of a hash of it. To
// find another secret of an incarnation takes 2^128 attempts, so that a sender who has one proves that it is that
// worker, and nothing has to be kept for that.
std::string IncarnationOfSecret(absl::string_view secret);

}  // namespace farandole

#endif  // FARANDOLE_BASE_SHA256_H_
