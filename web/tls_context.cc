#include "web/tls_context.h"

#include <openssl/ssl.h>

#include "absl/strings/str_cat.h"
#include "boost/asio/buffer.hpp"

namespace farandole {

namespace ssl = boost::asio::ssl;

absl::StatusOr<std::shared_ptr<ssl::context>> MakeTlsContext(const Certificate& certificate) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  boost::system::error_code error;
  context->use_certificate_chain(boost::asio::buffer(certificate.certificate_pem), error);
  if (!error) context->use_private_key(boost::asio::buffer(certificate.key_pem), ssl::context::pem, error);
  if (error)
    return absl::InvalidArgumentError(absl::StrCat("HTTPS cannot use the certificate and its key: ", error.message()));
  return context;
}

}  // namespace farandole
