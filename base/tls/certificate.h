#ifndef FARANDOLE_BASE_TLS_CERTIFICATE_H_
#define FARANDOLE_BASE_TLS_CERTIFICATE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace farandole {

// A server's certificate and its private key, both in PEM.
struct Certificate {
  std::string certificate_pem;
  std::string key_pem;
};

// Makes a key pair (ECDSA P-256) and a certificate that it signs itself: a client that trusts exactly this certificate
// trusts the server that holds the key, and the certificate can sign no other. `names` are host names and IP addresses
// under which the server is reached (subject alternative names); names that no certificate can carry are left out.
//   INTERNAL  the library refused; the text says why
absl::StatusOr<Certificate> MakeCertificate(const std::vector<std::string>& names, absl::Time not_before,
                                            absl::Time not_after);

}  // namespace farandole

#endif  // FARANDOLE_BASE_TLS_CERTIFICATE_H_
