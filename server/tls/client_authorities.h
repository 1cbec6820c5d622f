#ifndef FARANDOLE_SERVER_TLS_CLIENT_AUTHORITIES_H_
#define FARANDOLE_SERVER_TLS_CLIENT_AUTHORITIES_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/steady_notification.h"

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
  // Ends the watch.
  ~ClientAuthorities();

  // As it was loaded.
  const std::string& pem() const { return first_; }

  // Begins the watch; to be called once. Tests give a shorter `interval`.
  void Watch(Listener listener, absl::Duration interval = absl::Seconds(1));

 private:
  explicit ClientAuthorities(std::string file) : file_(std::move(file)) {}

  absl::StatusOr<std::string> Read() const;
  void Look();
  void Refuse(const absl::Status& why);

  const std::string file_;
  std::string first_;

  // Of the thread.
  std::string used_;
  // New contents that were seen once.
  std::string seen_;
  // A refusal that was seen once, and the one that was told: a file that is being written holds nothing for a moment.
  std::string seen_refusal_;
  std::string told_refusal_;
  Listener listener_;
  SteadyNotification stop_;
  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_TLS_CLIENT_AUTHORITIES_H_
