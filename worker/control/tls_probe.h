#ifndef FARANDOLE_WORKER_CONTROL_TLS_PROBE_H_
#define FARANDOLE_WORKER_CONTROL_TLS_PROBE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace farandole {

// A coordinator to look at, from the side of one who would speak to it.
struct TlsQuestion {
  // "HOST:PORT"; IPv6 addresses in brackets.
  std::string address;
  // Certificates, in PEM, that the coordinator's must descend from; "": one who speaks no TLS asks.
  std::string ca_pem;
  // Where they were read from, for people.
  std::string ca_origin;
  // The name that the coordinator's certificate is to hold for; "": the host of the address.
  std::string server_name = {};
};

// Says why a coordinator and its caller do not understand each other, by a connection of its own. gRPC tells a wrong
// certificate authority, an expired certificate and a foreign name from each other no more than from a lost packet, and
// goes on trying. Blocks for at most `timeout`.
//   OK               nothing is wrong, as far as can be seen; also where nobody listens, or does not answer in time
//   UNAUTHENTICATED  one sentence: the certificate descends from another authority, holds for other names, has expired
//                    or is not valid yet; or one side speaks TLS and the other does not
//   INVALID_ARGUMENT `ca_pem` holds no certificate
absl::Status FindTlsFault(const TlsQuestion& question, absl::Duration timeout);

// The first of `addresses` (HOST:PORT each) at which a server proves itself by a certificate that descends from
// `ca_pem`. All are asked at once; of those that answer within 200 ms of the first, the one that comes first in
// `addresses` is taken. Names are looked up only where no address is proven within half of
// `timeout`. For a host that does not know by which way it can reach another.
//   UNAVAILABLE  none did until `timeout`; the sentence has each address with what was wrong there
absl::StatusOr<std::string> FindProvenAddress(const std::vector<std::string>& addresses, const std::string& ca_pem,
                                              absl::Duration timeout);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_TLS_PROBE_H_
