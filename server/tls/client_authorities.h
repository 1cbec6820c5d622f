#ifndef FARANDOLE_SERVER_TLS_CLIENT_AUTHORITIES_H_
#define FARANDOLE_SERVER_TLS_CLIENT_AUTHORITIES_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/tls/file_watch.h"

namespace farandole {

// The authorities from which clients' certificates must descend, in a file (PEM) that may be replaced while the
// coordinator runs. Looks at the file once a second, in a thread of its own. A file without a certificate changes
// nothing, and is told: in the log, and to the owner. Owned by the coordinator.
class ClientAuthorities {
 public:
  // Is told of the file, on the thread of the watch.
  struct Listener {
    // New contents; an error says why they cannot be used after all.
    std::function<absl::Status(const std::string& pem)> on_change;
    // The file holds nothing that can be used; once for each such content.
    std::function<void()> on_refusal;
  };

  // INVALID_ARGUMENT: the file cannot be read, or holds no certificate (it is named).
  static absl::StatusOr<std::unique_ptr<ClientAuthorities>> Load(std::string file);

  // As it was loaded.
  const std::string& pem() const { return first_; }

  // Begins the watch; to be called once. Tests give a shorter `interval`.
  void Watch(Listener listener, absl::Duration interval = absl::Seconds(1));

 private:
  explicit ClientAuthorities(std::string file) : file_(std::move(file)) {}

  absl::StatusOr<std::string> Read() const;
  // One look of the watch at the file.
  absl::Status Look();

  const std::string file_;
  std::string first_;

  // For the watch's thread only: the contents in use.
  std::string used_;
  // New contents that were seen once.
  std::string seen_;
  Listener listener_;
  // The last member: its thread uses the others.
  FileWatch watch_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_TLS_CLIENT_AUTHORITIES_H_
