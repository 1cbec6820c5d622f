#include "base/secrets/secrets.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/check.h"

namespace farandole {

std::string SecureRandomBytes(size_t count) {
  std::string bytes(count, '\0');
  FD_CHECK_EQ(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)), 1);
  return bytes;
}

bool EqualSecrets(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace farandole
