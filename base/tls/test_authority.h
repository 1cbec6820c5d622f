#ifndef FARANDOLE_BASE_TLS_TEST_AUTHORITY_H_
#define FARANDOLE_BASE_TLS_TEST_AUTHORITY_H_

#include <openssl/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/tls/certificate.h"

namespace farandole {

// A certificate authority for tests, of which each has a key of its own. Thread-safe.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name);
  ~TestAuthority();
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  // Its own certificate, which signs the others.
  const std::string& pem() const { return pem_; }
  // A certificate for the subject alternative names `uris`, for servers (as localhost and 127.0.0.1) and clients.
  Certificate Issue(const std::vector<std::string>& uris, absl::Time not_before, absl::Time not_after) const;

 private:
  EVP_PKEY* key_;
  X509* certificate_;
  std::string pem_;
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_TLS_TEST_AUTHORITY_H_
