#ifndef FARANDOLE_WORKER_ORDER_SOCKET_STREAM_H_
#define FARANDOLE_WORKER_ORDER_SOCKET_STREAM_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/order/relay_stream.h"
#include "worker/transport/tcp/socket_set.h"

namespace farandole {

// The bytes between two leaders over a socket.
class SocketStream final : public RelayStream {
 public:
  // Takes over `fd`, a connected non-blocking socket, also where it fails; a peer that acknowledges nothing for 10 s
  // counts as gone. `sockets` is borrowed. Fails as SocketSet::Add does.
  static absl::StatusOr<std::unique_ptr<SocketStream>> Open(int fd, SocketSet* sockets);
  ~SocketStream() override;
  SocketStream(const SocketStream&) = delete;
  SocketStream& operator=(const SocketStream&) = delete;

  absl::StatusOr<size_t> Send(absl::string_view bytes) override;
  absl::StatusOr<size_t> Receive(char* to, size_t most) override;
  void WantRead(bool want) override;
  void WantWrite(bool want) override;

 private:
  SocketStream(int fd, SocketSet* sockets) : fd_(fd), sockets_(sockets) {}
  absl::Status End(absl::Status why);

  const int fd_;
  SocketSet* const sockets_;
  bool is_readable_ = false;
  absl::Status ended_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ORDER_SOCKET_STREAM_H_
