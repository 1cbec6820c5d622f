#ifndef FARANDOLE_WORKER_TRANSPORT_TRANSPORT_H_
#define FARANDOLE_WORKER_TRANSPORT_TRANSPORT_H_

#include <cstddef>
#include <limits>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/core/collective.h"

namespace farandole {

// State of one send or receive; owned by the caller, who keeps it and the bytes in place until `complete`.
struct Transfer {
  int peer = 0;
  char* data = nullptr;  // read only by sends
  size_t bytes = 0;
  // Written by the transport.
  size_t done = 0;
  bool complete = false;
};

// Moves bytes between the ranks of one epoch. Made by a factory of the transport's own file when the epoch is formed,
// dropped with it; never repaired: after the first error all calls fail with that error. All calls are made by the
// thread that has the engine's role, but Abort, which may come from any thread. Data that a peer publishes for this
// rank rings the rank's Doorbell.
class Transport {
 public:
  virtual ~Transport() = default;
  // "shm", "inproc", ...; static.
  virtual absl::string_view name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Starts a transfer and returns at once. Transfers between a pair of ranks match in the order in which each side
  // started them, and matching transfers have the same number of bytes (INTERNAL else). Any number may be in progress.
  virtual void Send(Transfer* transfer) = 0;
  virtual void Receive(Transfer* transfer) = 0;
  // Moves as much as can be moved now, without blocking; true if anything moved. Sets `complete` of transfers.
  virtual absl::StatusOr<bool> Progress() = 0;

  // Runs a collective in the transport's own way. UNIMPLEMENTED: it has none for this collective; the caller runs a
  // schedule over Send and Receive. All ranks of the group get the same answer for the same collective. The spans in
  // `collective` live until the operation is dropped. Never called for an alltoall: its ranks do not know each other's
  // counts, and it makes two collectives of one sequence number.
  virtual absl::StatusOr<std::unique_ptr<Operation>> Start(const Collective& collective) {
    (void)collective;
    return absl::UnimplementedError("this transport has no collectives of its own");
  }

  // The most hosts of a collective that each exchange with all others. If there are more, each exchanges with a few.
  // Equal on all ranks.
  virtual int most_direct_hosts() const { return std::numeric_limits<int>::max(); }

  // Where Progress has failed because the connection to a peer has ended or broken: the peer. -1: it has not.
  virtual int lost_peer() const { return -1; }

  // Ends all with `reason`; idempotent; from any thread. Does not wait.
  virtual void Abort(absl::Status reason) = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TRANSPORT_H_
