#include "base/sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace farandole {
namespace {

constexpr size_t kIncarnationBytes = 16;

}  // namespace

static_assert(kSha256Bytes == SHA256_DIGEST_LENGTH);

std::string Sha256(absl::string_view text) {
  std::string digest(kSha256Bytes, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

RunningSha256::RunningSha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
  FD_CHECK_EQ(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr), 1);
}

void RunningSha256::Add(absl::string_view bytes) {
  FD_CHECK_EQ(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()), 1);
}

std::string RunningSha256::Finish() {
  std::string digest(kSha256Bytes, '\0');
  FD_CHECK_EQ(EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr), 1);
  return digest;
}

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  // OpenSSL takes a null key for "the key of the last call".
  if (key.data() == nullptr) key = "";
  std::string mac(kSha256Bytes, '\0');
  unsigned int bytes = kSha256Bytes;
  const unsigned char* made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), reinterpret_cast<unsigned char*>(mac.data()), &bytes);
  FD_CHECK(made != nullptr && bytes == kSha256Bytes) << "OpenSSL gives no HMAC-SHA256";
  return mac;
}

std::string IncarnationOfSecret(absl::string_view secret) {
  return absl::BytesToHexString(Sha256(absl::StrCat("farandole worker ", secret)).substr(0, kIncarnationBytes));
}

}  // namespace farandole
