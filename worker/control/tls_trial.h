#ifndef FARANDOLE_WORKER_CONTROL_TLS_TRIAL_H_
#define FARANDOLE_WORKER_CONTROL_TLS_TRIAL_H_

#include <netdb.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "worker/control/tls_probe.h"

namespace farandole {

// One TLS handshake with one coordinator, which never blocks except for the look-up of a name. Owned by a probe; one
// thread. Sends by itself, since OpenSSL's own sockets would raise SIGPIPE in a training program.
class TlsTrial {
 public:
  explicit TlsTrial(TlsQuestion question);
  ~TlsTrial();
  TlsTrial(const TlsTrial&) = delete;
  TlsTrial& operator=(const TlsTrial&) = delete;

  // Goes on as far as it can; again when poll(2) has `events()` of `fd()`.
  void Go();
  bool is_over() const { return is_over_; }
  int fd() const { return fd_; }
  short events() const { return events_; }  // NOLINT(google-runtime-int): poll(2)'s type.
  const std::string& address() const { return question_.address; }
  // After the end, or what is known so far:
  //   OK               both understand each other
  //   UNAVAILABLE      nobody answers there (why, as far as known)
  //   UNAUTHENTICATED, INVALID_ARGUMENT  as FindTlsFault
  const absl::Status& status() const { return status_; }

 private:
  void End(absl::Status status);
  bool Resolve();
  // Begins a connection to the next address of the name; false: there is none left.
  bool ConnectNext();
  absl::Status PrepareTls();
  bool Send();
  bool Receive();
  void Handshake();
  absl::Status Judge() const;
  absl::Status JudgeFailure() const;
  std::string Who() const;

  const TlsQuestion question_;
  std::string host_;
  std::string port_;
  addrinfo* addresses_ = nullptr;
  const addrinfo* next_ = nullptr;
  int fd_ = -1;
  short events_ = 0;  // NOLINT(google-runtime-int): poll(2)'s type.
  bool is_connected_ = false;
  bool is_over_ = false;
  absl::Status status_ = absl::UnavailableError("it does not answer");
  SSL_CTX* context_ = nullptr;
  SSL* tls_ = nullptr;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_TLS_TRIAL_H_
