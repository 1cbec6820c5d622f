#include "worker/control/tls_trial.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/tls/certificate_reader.h"

namespace farandole {
namespace {

constexpr size_t kMostNamesShown = 8;
// gRPC speaks HTTP/2, and a server may want to hear so.
constexpr unsigned char kProtocols[] = {2, 'h', '2'};

std::string TimeText(absl::Time time) { return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone()); }

// The names and addresses that a certificate holds for.
std::vector<std::string> NamesOf(const X509* certificate) {
  CertificateFacts facts = FactsOf(certificate);
  std::vector<std::string> names = std::move(facts.dns_names);
  names.insert(names.end(), facts.addresses.begin(), facts.addresses.end());
  if (names.size() > kMostNamesShown) names.resize(kMostNamesShown);
  return names;
}

bool IsAddress(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 || inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

TlsTrial::TlsTrial(TlsQuestion question) : question_(std::move(question)) {
  const size_t colon = question_.address.rfind(':');
  if (colon == std::string::npos) {
    End(absl::UnavailableError("it is no HOST:PORT"));
    return;
  }
  absl::string_view host = absl::string_view(question_.address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  host_ = std::string(host);
  port_ = question_.address.substr(colon + 1);
}

TlsTrial::~TlsTrial() {
  SSL_free(tls_);
  SSL_CTX_free(context_);
  if (fd_ >= 0) close(fd_);
  if (addresses_ != nullptr) freeaddrinfo(addresses_);
}

void TlsTrial::End(absl::Status status) {
  is_over_ = true;
  status_ = std::move(status);
}

std::string TlsTrial::Who() const { return absl::StrCat("coordinator ", question_.address); }

bool TlsTrial::Resolve() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  const int error = getaddrinfo(host_.c_str(), port_.c_str(), &hints, &addresses_);
  if (error != 0)
    End(absl::UnavailableError(absl::StrCat("the host '", host_, "' is not known: ", gai_strerror(error))));
  next_ = addresses_;
  return error == 0;
}

bool TlsTrial::ConnectNext() {
  for (; next_ != nullptr; next_ = next_->ai_next) {
    if (fd_ >= 0) close(fd_);
    fd_ = socket(next_->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ >= 0 && (connect(fd_, next_->ai_addr, next_->ai_addrlen) == 0 || errno == EINPROGRESS)) {
      next_ = next_->ai_next;
      events_ = POLLOUT;
      return true;
    }
    status_ = absl::UnavailableError(strerror(errno));
  }
  return false;
}

absl::Status TlsTrial::PrepareTls() {
  context_ = SSL_CTX_new(TLS_client_method());
  tls_ = context_ == nullptr ? nullptr : SSL_new(context_);
  if (tls_ == nullptr) return absl::UnavailableError("no TLS session can be made");
  // Look at the result after the handshake: then it says what is wrong. A server that has not proven itself is shown no
  // certificate of the client's.
  SSL_set_verify(tls_, question_.cert_pem.empty() ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  if (!question_.ca_pem.empty() && AddTrust(question_.ca_pem, SSL_CTX_get_cert_store(context_)) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the CA file ", question_.ca_origin, " holds no certificate in PEM"));
  }
  const std::string& name = question_.server_name.empty() ? host_ : question_.server_name;
  if (IsAddress(name)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_), name.c_str());
  } else {
    SSL_set1_host(tls_, name.c_str());
    SSL_set_tlsext_host_name(tls_, name.c_str());
  }
  if (!question_.cert_pem.empty() && !UsePair({question_.cert_pem, question_.key_pem}, tls_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the certificate file ", question_.cert_origin, " holds no certificate that its key fits"));
  }
  SSL_set_alpn_protos(tls_, kProtocols, sizeof(kProtocols));
  SSL_set_bio(tls_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_set_connect_state(tls_);
  return absl::OkStatus();
}

void TlsTrial::Go() {
  if (is_over_) return;
  if (addresses_ == nullptr) {
    if (!Resolve()) return;
    if (!ConnectNext()) End(status_);
    return;
  }
  if (!is_connected_) {
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) {
      status_ = absl::UnavailableError(strerror(error));
      if (!ConnectNext()) End(status_);
      return;
    }
    is_connected_ = true;
    if (absl::Status ready = PrepareTls(); !ready.ok()) {
      End(std::move(ready));
      return;
    }
  } else if ((events_ & POLLIN) != 0 && !Receive()) {
    return;
  }
  Handshake();
}

void TlsTrial::Handshake() {
  ERR_clear_error();
  int result = SSL_do_handshake(tls_);
  if (result == 1 && question_.awaits_word && Judge().ok()) {
    char word = 0;
    result = SSL_read(tls_, &word, 1);
  }
  const int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(tls_, result);
  if (!Send()) return;
  events_ = POLLIN;
  if (error == SSL_ERROR_WANT_READ) return;
  End(error == SSL_ERROR_NONE ? Judge() : JudgeFailure());
}

bool TlsTrial::Send() {
  char* bytes = nullptr;
  BIO* out = SSL_get_wbio(tls_);
  const auto count = static_cast<size_t>(BIO_get_mem_data(out, &bytes));
  // A client's handshake is some kilobytes, which an empty socket takes at once.
  const bool is_sent = count == 0 || send(fd_, bytes, count, MSG_NOSIGNAL) == static_cast<ssize_t>(count);
  static_cast<void>(BIO_reset(out));
  if (!is_sent) End(absl::UnavailableError(absl::StrCat("the connection broke: ", strerror(errno))));
  return is_sent;
}

bool TlsTrial::Receive() {
  char bytes[16 * 1024];
  const ssize_t count = recv(fd_, bytes, sizeof(bytes), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count <= 0) {
    End(absl::UnavailableError(count == 0 ? "it closed the connection" : strerror(errno)));
    return false;
  }
  return BIO_write(SSL_get_rbio(tls_), bytes, static_cast<int>(count)) == count;
}

absl::Status TlsTrial::Judge() const {
  if (question_.ca_pem.empty()) {
    return absl::UnauthenticatedError(absl::StrCat(
        Who(),
        " speaks TLS, and no CA file was given; name the file with its certificate authority (FARANDOLE_CA_FILE)"));
  }
  X509* certificate = SSL_get0_peer_certificate(tls_);
  const auto result = SSL_get_verify_result(tls_);
  if (result == X509_V_OK) return absl::OkStatus();
  switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::UnauthenticatedError(
          absl::StrCat(Who(), " has a certificate that expired on ", TimeText(FactsOf(certificate).not_after)));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::UnauthenticatedError(absl::StrCat(Who(), " has a certificate that is not valid before ",
                                                     TimeText(FactsOf(certificate).not_before),
                                                     "; is this machine's clock right?"));
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: {
      const std::vector<std::string> names = NamesOf(certificate);
      return absl::UnauthenticatedError(
          absl::StrCat(Who(), " has a certificate for ", names.empty() ? "no name" : absl::StrJoin(names, ", "),
                       ", not for '", question_.server_name.empty() ? host_ : question_.server_name, "'"));
    }
    default:
      return absl::UnauthenticatedError(absl::StrCat(Who(), " has a certificate that descends from no authority in ",
                                                     question_.ca_origin, " (", X509_verify_cert_error_string(result),
                                                     ")"));
  }
}

absl::Status TlsTrial::JudgeFailure() const {
  const auto error = ERR_peek_error();
  switch (ERR_GET_REASON(error)) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_BAD_PROTOCOL_VERSION_NUMBER:
      if (question_.ca_pem.empty()) return absl::OkStatus();
      return absl::UnauthenticatedError(absl::StrCat(
          Who(), " speaks no TLS, and the CA file ", question_.ca_origin,
          " asks for it; the token was not sent (without the CA file TLS is not spoken, which is for a coordinator "
          "on this host)"));
    default:
      break;
  }
  const char* reason = ERR_reason_error_string(error);
  const std::string text = absl::StrCat("the TLS handshake failed: ", reason == nullptr ? "it broke off" : reason);
  // The caller speaks no TLS: the answer was no alert of a TLS server that we understand.
  if (question_.ca_pem.empty()) return absl::UnavailableError(text);
  return absl::UnauthenticatedError(absl::StrCat(Who(), ": ", text));
}

}  // namespace farandole
