#ifndef FARANDOLE_WEB_TLS_CONTEXT_H_
#define FARANDOLE_WEB_TLS_CONTEXT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "base/tls/certificate.h"
#include "boost/asio/ssl/context.hpp"

namespace farandole {

// Makes the server's side of HTTPS, which speaks TLS 1.2 or 1.3 with the certificate. Shared by the edge, until it has
// another certificate, and by the connections that began with it. INVALID_ARGUMENT: the library refuses the pair (its
// words).
absl::StatusOr<std::shared_ptr<boost::asio::ssl::context>> MakeTlsContext(const Certificate& certificate);

}  // namespace farandole

#endif  // FARANDOLE_WEB_TLS_CONTEXT_H_
