#ifndef FARANDOLE_WORKER_ORDER_RELAY_STREAM_H_
#define FARANDOLE_WORKER_ORDER_RELAY_STREAM_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole {

// The bytes between the leaders of two hosts, in order and both ways. Owned by a RelayLink, and part of its rank's
// engine role. Nothing blocks. Dropping it ends the connection.
class RelayStream {
 public:
  virtual ~RelayStream() = default;

  // Gives how many bytes were taken, from the front. An error: the peer has gone, and will take nothing any more; its
  // earlier messages can still be received, and they tell why.
  virtual absl::StatusOr<size_t> Send(absl::string_view bytes) = 0;
  // Gives how many bytes have come, at most `most`; 0: none that the last poll has told of. An error: none will come
  // any more; its message says why: "ended", "broke: Connection reset by peer".
  virtual absl::StatusOr<size_t> Receive(char* to, size_t most) = 0;
  // Whether the poll is to tell when there is something to receive (which it does initially), or room to send.
  virtual void WantRead(bool want) = 0;
  virtual void WantWrite(bool want) = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ORDER_RELAY_STREAM_H_
