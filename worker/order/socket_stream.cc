#include "worker/order/socket_stream.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/transport/tcp/silence_limit.h"

namespace farandole {
namespace {

// Longer than the coordinator's limit for silence, so that of a host that is cut off altogether its word comes first.
constexpr int kSilenceSeconds = 10;

}  // namespace

absl::StatusOr<std::unique_ptr<SocketStream>> SocketStream::Open(int fd, SocketSet* sockets) {
  std::unique_ptr<SocketStream> stream(new SocketStream(fd, sockets));
  SocketStream* self = stream.get();
  LimitSilence(fd, kSilenceSeconds);
  absl::Status added = sockets->Add(fd, [self](bool readable, bool) { self->is_readable_ = readable; });
  if (!added.ok()) return added;
  return stream;
}

SocketStream::~SocketStream() {
  sockets_->Remove(fd_);
  close(fd_);
}

absl::StatusOr<size_t> SocketStream::Send(absl::string_view bytes) {
  size_t taken = 0;
  while (taken < bytes.size()) {
    const ssize_t sent = send(fd_, bytes.data() + taken, bytes.size() - taken, MSG_NOSIGNAL);
    if (sent >= 0) {
      taken += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      return absl::UnavailableError(strerror(errno));
    }
  }
  return taken;
}

absl::StatusOr<size_t> SocketStream::Receive(char* to, size_t most) {
  if (!ended_.ok()) return ended_;
  if (!is_readable_) return 0;
  is_readable_ = false;
  ssize_t received = 0;
  do {
    received = recv(fd_, to, most, 0);
  } while (received < 0 && errno == EINTR);
  if (received > 0) return static_cast<size_t>(received);
  if (received == 0) return End(absl::UnavailableError("ended"));
  if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
  return End(absl::UnavailableError(absl::StrCat("broke: ", strerror(errno))));
}

absl::Status SocketStream::End(absl::Status why) {
  ended_ = std::move(why);
  // Else the set would report it for ever.
  sockets_->Remove(fd_);
  return ended_;
}

void SocketStream::WantRead(bool want) {
  if (ended_.ok()) sockets_->WantRead(fd_, want);
}

void SocketStream::WantWrite(bool want) {
  if (ended_.ok()) sockets_->WantWrite(fd_, want);
}

}  // namespace farandole
