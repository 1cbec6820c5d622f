#include "worker/relay_link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// Hosts that both reach the coordinator may not reach each other any more, which no socket tells by itself: who has
// acknowledged nothing for so long is lost. Longer than the coordinator's limit for silence, so that of a host that is
// cut off altogether its word comes first.
constexpr int kProbeSeconds = 2;
constexpr int kProbes = 4;
constexpr unsigned int kUnacknowledgedMs = 10'000;

// Tests connect by sockets that have no such limits, nor need them.
void LimitSilence(int fd) {
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kProbeSeconds, sizeof(kProbeSeconds));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kProbeSeconds, sizeof(kProbeSeconds));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(kProbes));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledgedMs, sizeof(kUnacknowledgedMs));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RelayLink>> RelayLink::Open(int peer, int fd, SocketSet* sockets) {
  std::unique_ptr<RelayLink> link(new RelayLink(peer, fd, sockets));
  RelayLink* self = link.get();
  LimitSilence(fd);
  absl::Status added = sockets->Add(fd, [self](bool readable, bool) { self->is_readable_ = readable; });
  if (!added.ok()) return added;
  return link;
}

RelayLink::~RelayLink() {
  sockets_->Remove(fd_);
  close(fd_);
}

void RelayLink::SetEnding(std::string ending) {
  ending_ = std::move(ending);
  takes_nothing_ = true;
  is_readable_ = false;
  // Else the set would report it for ever.
  sockets_->Remove(fd_);
}

bool RelayLink::Flush() {
  bool moved = false;
  while (sent_ < out_.size() && !takes_nothing_) {
    const ssize_t sent = send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (sent >= 0) {
      sent_ += static_cast<size_t>(sent);
      moved = moved || sent > 0;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      // What it has said before it went is still read; that is what tells why.
      takes_nothing_ = true;
    }
  }
  if (takes_nothing_) sent_ = out_.size();
  if (sent_ == out_.size() || sent_ >= kMostWaiting) {
    out_.erase(0, sent_);
    sent_ = 0;
  }
  const bool is_flushed = out_.size() == sent_;
  if (ending_.empty()) sockets_->WantWrite(fd_, !is_flushed);
  is_flushed_.store(is_flushed);
  return moved;
}

bool RelayLink::Receive() {
  if (!is_readable_) return false;
  is_readable_ = false;
  if (begin_ > 0) {
    memmove(in_.get(), in_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == kMostUnread) return false;
  ssize_t received = 0;
  do {
    received = recv(fd_, in_.get() + end_, kMostUnread - end_, 0);
  } while (received < 0 && errno == EINTR);
  if (received > 0) {
    end_ += static_cast<size_t>(received);
    // While what is here cannot be passed on, nothing more is fetched: TCP pushes back.
    if (end_ == kMostUnread) sockets_->WantRead(fd_, false);
  } else if (received == 0) {
    SetEnding("ended");
  } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
    SetEnding(absl::StrCat("broke: ", strerror(errno)));
  }
  return received >= 0;
}

absl::StatusOr<bool> RelayLink::Next(int size, RelayFrame* frame) {
  if (begin_ == end_) return false;
  const absl::StatusOr<size_t> length = TakeFrame(absl::string_view(in_.get() + begin_, end_ - begin_), size, frame);
  if (!length.ok()) return length.status();
  if (*length == 0) return false;
  if (end_ - begin_ == kMostUnread && ending_.empty()) sockets_->WantRead(fd_, true);
  begin_ += *length;
  return true;
}

}  // namespace farandole
