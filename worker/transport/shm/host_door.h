#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_HOST_DOOR_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_HOST_DOOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace farandole {

// How the ranks of one host come to share an epoch's memory: the first of them offers it at its door, an abstract Unix
// socket that was opened before Join, and passes the descriptor to each peer that proves to know the epoch's secret.
// Peers prove it to each other: HMAC-SHA256 over both sides' nonces, the epoch and the rank. Connections of other users
// are closed at once.
class HostDoor {
 public:
  // RESOURCE_EXHAUSTED: the system gives no socket.
  static absl::StatusOr<std::unique_ptr<HostDoor>> Open();
  ~HostDoor();
  HostDoor(const HostDoor&) = delete;
  HostDoor& operator=(const HostDoor&) = delete;

  // "unix-abstract:NAME", for Member.endpoints.
  const std::string& endpoint() const { return endpoint_; }

  struct Terms {
    std::string secret;
    uint64_t epoch = 0;
    absl::Time deadline;
    // Asked about every 100 ms; a status that is not OK ends the wait with it.
    std::function<absl::Status()> give_up;
  };
  // Gives `fd` to each of the `peers` (ranks) once, and returns when all have it.
  //   DEADLINE_EXCEEDED: some did not come (named)
  absl::Status Offer(const Terms& terms, int fd, std::vector<int> peers);
  // Takes the descriptor at the door of another.
  //   DEADLINE_EXCEEDED: it was not answered; PERMISSION_DENIED: what answers does not know the secret, or does not
  //   expect this rank of this epoch
  static absl::StatusOr<int> Enter(absl::string_view endpoint, const Terms& terms, int rank);

 private:
  HostDoor(int fd, std::string endpoint) : fd_(fd), endpoint_(std::move(endpoint)) {}
  // Serves one connection; gives the peer's rank, or -1 for a stranger.
  int Serve(int connection, const Terms& terms, int fd, const std::vector<int>& peers);

  const int fd_;
  const std::string endpoint_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_HOST_DOOR_H_
