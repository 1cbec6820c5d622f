#ifndef FARANDOLE_SERVER_IDENTITY_CLIENT_CERTIFICATES_H_
#define FARANDOLE_SERVER_IDENTITY_CLIENT_CERTIFICATES_H_

#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/metrics/metrics.h"
#include "server/registry/tenants.h"

namespace farandole {

// The owners of the certificates by which clients have proved themselves, by the names of one trust domain. TLS has
// verified each certificate when its connection was made; here it gets its meaning, and its end. Owned by the
// coordinator; any thread.
class ClientCertificates {
 public:
  // `tenants` and `metrics` outlive it. `clock`: the wall clock.
  ClientCertificates(std::string trust_domain, const Tenants* tenants, Metrics* metrics,
                     std::function<absl::Time()> clock)
      : trust_domain_(std::move(trust_domain)), tenants_(tenants), metrics_(metrics), clock_(std::move(clock)) {}

  // The role that the certificate's name gives; `pem` begins with the client's own certificate.
  //   UNAUTHENTICATED  its name is none that ReadSpiffeName takes, there is no such tenant, or it has expired since its
  //                    connection was made; the sentence tells what was found and wanted
  absl::StatusOr<Access> Authenticate(absl::string_view pem);

 private:
  absl::StatusOr<Access> Examine(const std::string& pem, const char** result) const;

  const std::string trust_domain_;
  const Tenants* const tenants_;
  Metrics* const metrics_;
  const std::function<absl::Time()> clock_;

  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  std::mutex mutex_;
  // The access that good certificates give, by their SHA-256.
  absl::flat_hash_map<std::string, Access> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_IDENTITY_CLIENT_CERTIFICATES_H_
