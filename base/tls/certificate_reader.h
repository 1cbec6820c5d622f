#ifndef FARANDOLE_BASE_TLS_CERTIFICATE_READER_H_
#define FARANDOLE_BASE_TLS_CERTIFICATE_READER_H_

#include <openssl/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/tls/certificate.h"

namespace farandole {

// The content of a certificate that people and servers ask for.
struct CertificateFacts {
  absl::Time not_before;
  absl::Time not_after;
  // The names and IP addresses that it holds for (subject alternative names).
  std::vector<std::string> dns_names;
  std::vector<std::string> addresses;
  // And the URIs, which are names of services.
  std::vector<std::string> uris;
};

// Any thread. Time zero (1970) stands for a time that cannot be read.
CertificateFacts FactsOf(const X509* certificate);

// The facts of the first certificate of a PEM text. INVALID_ARGUMENT: the text holds no certificate.
absl::StatusOr<CertificateFacts> ReadCertificate(const std::string& pem);

// Adds all certificates of a PEM text to the store; returns their number.
int AddTrust(const std::string& pem, X509_STORE* store);

// Has the session prove itself by the pair, with the first certificate's chain. False: the pair cannot be used.
bool UsePair(const Certificate& pair, SSL* session);

// Checks that a server or a client can use the pair now, and returns the facts of its first certificate.
//   INVALID_ARGUMENT  a part is no PEM, the key is not that of the first certificate, or a certificate of the chain has
//                     expired or is not valid yet (both times are named)
absl::StatusOr<CertificateFacts> CheckCertificate(const Certificate& pair, absl::Time now);

}  // namespace farandole

#endif  // FARANDOLE_BASE_TLS_CERTIFICATE_READER_H_
