#ifndef FARANDOLE_BASE_TLS_CLIENT_CERTIFICATE_H_
#define FARANDOLE_BASE_TLS_CLIENT_CERTIFICATE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/tls/certificate.h"

namespace farandole {

// Reads the certificate by which a client proves itself, and its key, from two PEM files. Errors name the files.
//   INVALID_ARGUMENT   CheckCertificate refuses the pair
//   PERMISSION_DENIED  every user of this host may read the key, or this one may not read a file
//   NOT_FOUND, UNAVAILABLE  a file cannot be read
absl::StatusOr<Certificate> ReadClientCertificate(const std::string& certificate_file, const std::string& key_file,
                                                  absl::Time now);

}  // namespace farandole

#endif  // FARANDOLE_BASE_TLS_CLIENT_CERTIFICATE_H_
