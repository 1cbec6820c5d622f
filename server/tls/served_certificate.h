#ifndef FARANDOLE_SERVER_TLS_SERVED_CERTIFICATE_H_
#define FARANDOLE_SERVER_TLS_SERVED_CERTIFICATE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/tls/certificate_reader.h"
#include "server/tls/file_watch.h"

namespace farandole {

// The certificate of the coordinator and its key, in two files that may be replaced while it runs. Looks at the files
// once a second, in a thread of its own. A new pair that no server can use changes nothing, and is told: in the log,
// and to the owner. Owned by the coordinator.
class ServedCertificate {
 public:
  // Is told of the files, on the thread of the watch.
  struct Listener {
    // A new pair, which fits and is valid now; an error says why it cannot be served after all.
    std::function<absl::Status(const Certificate&, const CertificateFacts&)> on_change;
    // The files hold a pair that is not served; once for each such pair.
    std::function<void()> on_refusal;
  };

  // Reads both files; errors name them.
  //   INVALID_ARGUMENT  a file cannot be read, or CheckCertificate refuses the pair
  static absl::StatusOr<std::unique_ptr<ServedCertificate>> Load(std::string certificate_file, std::string key_file);

  // The pair as it was loaded, and its facts.
  const Certificate& pair() const { return first_; }
  const CertificateFacts& facts() const { return facts_; }

  // Begins the watch; to be called once. Tests give a shorter `interval`.
  void Watch(Listener listener, absl::Duration interval = absl::Seconds(1));

 private:
  ServedCertificate(std::string certificate_file, std::string key_file)
      : certificate_file_(std::move(certificate_file)), key_file_(std::move(key_file)) {}

  absl::StatusOr<Certificate> Read() const;
  // One look of the watch at the files.
  absl::Status Look();

  const std::string certificate_file_;
  const std::string key_file_;
  Certificate first_;
  CertificateFacts facts_;

  // For the watch's thread only.
  Certificate served_;
  Listener listener_;
  // The last member: its thread uses the others.
  FileWatch watch_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_TLS_SERVED_CERTIFICATE_H_
