#include "worker/transport/tcp/record_cipher.h"

#include <endian.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/secrets/hkdf.h"

namespace farandole {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr size_t kIvBytes = 12;

std::string Follow(const RecordSecret& secret, absl::string_view what, size_t bytes) {
  return HkdfSha256(absl::string_view(reinterpret_cast<const char*>(secret.data()), secret.size()), "",
                    absl::StrCat("farandole record ", what), bytes);
}

const unsigned char* Bytes(const char* text) { return reinterpret_cast<const unsigned char*>(text); }
unsigned char* Bytes(char* text) { return reinterpret_cast<unsigned char*>(text); }

// Writes zeros over the first `bytes` bytes of `parts`.
void Clear(absl::Span<const iovec> parts, size_t bytes) {
  for (const iovec& part : parts) {
    const size_t piece = std::min(part.iov_len, bytes);
    if (piece > 0) memset(part.iov_base, 0, piece);
    bytes -= piece;
  }
}

}  // namespace

RecordCipher::RecordCipher(const RecordSecret& secret, bool seals, uint64_t records_per_key)
    : seals_(seals),
      records_per_key_(records_per_key),
      secret_(secret),
      context_(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free) {
  FD_CHECK(context_ != nullptr &&
           EVP_CipherInit_ex(context_.get(), EVP_aes_256_gcm(), nullptr, nullptr, nullptr, seals_ ? 1 : 0) == 1)
      << "OpenSSL has no AES-256-GCM";
  TakeKey();
}

RecordCipher::~RecordCipher() { OPENSSL_cleanse(secret_.data(), secret_.size()); }

void RecordCipher::TakeKey() {
  std::string key = Follow(secret_, "key", kKeyBytes);
  const std::string iv = Follow(secret_, "nonce", kIvBytes);
  std::string next = Follow(secret_, "next", secret_.size());
  FD_CHECK_EQ(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, Bytes(key.data()), nullptr, seals_ ? 1 : 0), 1);
  std::copy(iv.begin(), iv.end(), iv_.begin());
  std::copy(next.begin(), next.end(), secret_.begin());
  OPENSSL_cleanse(key.data(), key.size());
  OPENSSL_cleanse(next.data(), next.size());
}

void RecordCipher::Begin(const unsigned char* length) {
  if (count_ > 0 && count_ % records_per_key_ == 0) TakeKey();
  std::array<unsigned char, kIvBytes> nonce = iv_;
  const uint64_t number = htobe64(count_++);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&number);
  for (size_t i = 0; i < sizeof(number); ++i) nonce[kIvBytes - sizeof(number) + i] ^= bytes[i];
  int moved = 0;
  FD_CHECK(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce.data(), seals_ ? 1 : 0) == 1 &&
           EVP_CipherUpdate(context_.get(), nullptr, &moved, length, kRecordLengthBytes) == 1)
      << "OpenSSL begins no record";
}

void RecordCipher::Update(const char* from, size_t bytes, char* to) {
  int moved = 0;
  FD_CHECK(EVP_CipherUpdate(context_.get(), Bytes(to), &moved, Bytes(from), static_cast<int>(bytes)) == 1 &&
           moved == static_cast<int>(bytes))
      << "OpenSSL moves " << moved << " bytes of " << bytes;
}

void RecordCipher::Seal(char* tag) {
  unsigned char nothing[kRecordTagBytes];
  int moved = 0;
  FD_CHECK(EVP_CipherFinal_ex(context_.get(), nothing, &moved) == 1 && moved == 0 &&
           EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kRecordTagBytes, tag) == 1)
      << "OpenSSL gives no tag";
}

bool RecordCipher::Verify(const char* tag) {
  char expected[kRecordTagBytes];
  memcpy(expected, tag, kRecordTagBytes);
  FD_CHECK_EQ(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kRecordTagBytes, expected), 1);
  unsigned char nothing[kRecordTagBytes];
  int moved = 0;
  return EVP_CipherFinal_ex(context_.get(), nothing, &moved) == 1;
}

void RecordSealer::Seal(absl::Span<const iovec> parts, size_t bytes, char* to) {
  FD_CHECK(bytes > 0 && bytes <= kMostRecordBytes) << "a record of " << bytes << " bytes";
  const uint32_t length = htole32(static_cast<uint32_t>(bytes));
  memcpy(to, &length, kRecordLengthBytes);
  cipher_.Begin(Bytes(to));
  to += kRecordLengthBytes;
  for (const iovec& part : parts) {
    const size_t piece = std::min(part.iov_len, bytes);
    if (piece == 0) continue;
    cipher_.Update(static_cast<const char*>(part.iov_base), piece, to);
    to += piece;
    bytes -= piece;
  }
  FD_CHECK_EQ(bytes, 0u) << "bytes are missing of a record";
  cipher_.Seal(to);
}

absl::StatusOr<size_t> RecordOpener::LengthOf(const char* record) const {
  uint32_t length = 0;
  memcpy(&length, record, kRecordLengthBytes);
  length = le32toh(length);
  if (length > 0 && length <= kMostRecordBytes) return length;
  return absl::DataLossError(absl::StrCat("its record ", cipher_.count(), " says that it has ", length,
                                          " bytes, and a record has 1 to ", kMostRecordBytes));
}

absl::Status RecordOpener::Open(const char* record, size_t bytes, absl::Span<const iovec> parts) {
  const uint64_t number = cipher_.count();
  cipher_.Begin(Bytes(record));
  const char* from = record + kRecordLengthBytes;
  size_t left = bytes;
  for (const iovec& part : parts) {
    const size_t piece = std::min(part.iov_len, left);
    if (piece == 0) continue;
    cipher_.Update(from, piece, static_cast<char*>(part.iov_base));
    from += piece;
    left -= piece;
  }
  FD_CHECK_EQ(left, 0u) << "there is no room for a record";
  if (cipher_.Verify(from)) return absl::OkStatus();
  // An attacker chooses which bits of them have changed, and a program may use its memory in spite of the error.
  Clear(parts, bytes);
  return absl::DataLossError(absl::StrCat("its record ", number, ", of ", bytes,
                                          " bytes, does not verify: the bytes were changed on the way, left out, or "
                                          "sent twice or in another order"));
}

}  // namespace farandole
