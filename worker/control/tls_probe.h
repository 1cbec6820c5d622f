#ifndef FARANDOLE_WORKER_CONTROL_TLS_PROBE_H_
#define FARANDOLE_WORKER_CONTROL_TLS_PROBE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace farandole {

// The coordinator to probe, and the caller's TLS settings.
struct TlsQuestion {
  // "HOST:PORT"; IPv6 addresses in brackets.
  std::string address;
  // The certificate authorities that the caller trusts, in PEM; "": the caller uses no TLS.
  std::string ca_pem;
  // Where they were read from, for people.
  std::string ca_origin;
  // The name that the coordinator's certificate is to hold for; "": the host of the address.
  std::string server_name = {};
  // The certificate, and its key, by which the caller proves itself, in PEM, and the certificate's file, for people;
  // "": none.
  std::string cert_pem = {};
  std::string key_pem = {};
  std::string cert_origin = {};
  // The coordinator is to say something after the handshake: by version 1.3 of TLS, a client whose certificate is
  // refused learns of it then.
  bool awaits_word = false;
};

// Finds out, over a connection of its own, why a TLS connection to a coordinator fails. gRPC does not distinguish a
// wrong certificate authority, an expired certificate, a wrong name and a lost packet, and goes on trying. Blocks for
// at most `timeout`.
//   OK               nothing is wrong, as far as can be seen; also where nobody listens, or does not answer in time
//   UNAUTHENTICATED  one sentence: the certificate descends from another authority, holds for other names, has expired
//                    or is not valid yet; or one side speaks TLS and the other does not; or the coordinator accepts
//                    clients, and not the caller's certificate
//   INVALID_ARGUMENT `ca_pem` holds no certificate
absl::Status FindTlsFault(const TlsQuestion& question, absl::Duration timeout);

// The first of `addresses` (HOST:PORT each) at which a server proves itself by a certificate that descends from
// `ca_pem`. Tries all addresses at once. If several answer within 200 ms of the first answer, returns the one that
// comes first in `addresses`. Host names are resolved only if no numeric address has answered within half of `timeout`.
// Used by a host that does not know over which network it can reach another one.
//   UNAVAILABLE  none did until `timeout`; the sentence has each address with what was wrong there
absl::StatusOr<std::string> FindProvenAddress(const std::vector<std::string>& addresses, const std::string& ca_pem,
                                              absl::Duration timeout);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_TLS_PROBE_H_
