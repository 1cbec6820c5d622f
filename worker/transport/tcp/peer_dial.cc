#include "worker/transport/tcp/peer_dial.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/sockets/tcp_retries.h"
#include "base/steady_time.h"

namespace farandole {
namespace {

constexpr absl::Duration kLongestSilence = absl::Seconds(10);

}  // namespace

PeerDial::PeerDial(ControlLoop* loop, Callee callee, std::function<void(absl::StatusOr<PeerSocket>)> on_done)
    : loop_(loop), callee_(std::move(callee)), on_done_(std::move(on_done)) {
  deadline_timer_ = loop_->RunAfter(callee_.deadline - SteadyNow(), [this] {
    Finish(absl::DeadlineExceededError(absl::StrCat(callee_.who, " cannot be reached from here: ", Troubles())));
  });
  for (const std::string& endpoint : callee_.endpoints) {
    const std::optional<SocketAddress> address = ParseEndpoint(endpoint);
    if (!address) continue;
    attempts_.push_back(std::make_unique<Attempt>());
    attempts_.back()->address = *address;
    Start(attempts_.back().get());
  }
}

PeerDial::~PeerDial() {
  for (const std::unique_ptr<Attempt>& attempt : attempts_) {
    Close(attempt.get());
    loop_->Cancel(attempt->timer);
  }
  loop_->Cancel(deadline_timer_);
}

void PeerDial::Start(Attempt* attempt) {
  attempt->timer = loop_->RunAfter(kLongestSilence, [this, attempt] { GiveUp(attempt, SilenceIn(attempt->stage)); });
  attempt->fd = socket(attempt->address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (attempt->fd < 0) return GiveUp(attempt, strerror(errno));
  const int on = 1;
  setsockopt(attempt->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  RetrySooner(attempt->fd);
  attempt->stage = Stage::kConnecting;
  if (connect(attempt->fd, attempt->address.get(), attempt->address.bytes) != 0 && errno != EINPROGRESS)
    return GiveUp(attempt, strerror(errno));
  Watch(attempt, POLLOUT);
}

// NOLINTNEXTLINE(google-runtime-int): poll(2)'s type.
void PeerDial::Watch(Attempt* attempt, short events) {
  loop_->UnwatchFd(attempt->fd);
  const absl::Status watched =
      loop_->WatchFd(attempt->fd, events, [this, attempt](short) { OnReady(attempt); });  // NOLINT(google-runtime-int)
  if (!watched.ok()) GiveUp(attempt, std::string(watched.message()));
}

void PeerDial::OnReady(Attempt* attempt) {
  switch (attempt->stage) {
    case Stage::kIdle:
      return;
    case Stage::kConnecting: {
      int error = 0;
      socklen_t bytes = sizeof(error);
      getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
      if (error != 0) return GiveUp(attempt, strerror(error));
      attempt->stage = Stage::kNonce;
      return Watch(attempt, POLLIN);
    }
    case Stage::kNonce:
      if (Take(attempt, sizeof(PeerNonce))) Claim(attempt);
      return;
    case Stage::kProof:
      if (!Take(attempt, sizeof(PeerMac))) return;
      if (!IsPeerMac(attempt->expected, attempt->bytes)) {
        return GiveUp(attempt, "the process that answers there does not know this epoch's secret");
      }
      return Win(attempt);
  }
}

bool PeerDial::Take(Attempt* attempt, size_t size) {
  std::string& bytes = attempt->bytes;
  const size_t had = bytes.size();
  bytes.resize(size);
  const ssize_t got = recv(attempt->fd, &bytes[had], size - had, 0);
  const int error = errno;
  bytes.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0 && (error == EAGAIN || error == EINTR)) return false;
  if (got < 0) {
    GiveUp(attempt, strerror(error));
  } else if (got == 0) {
    GiveUp(attempt, absl::StrCat("what answers there ended the connection without proof of rank ", callee_.claim.to,
                                 " of epoch ", callee_.claim.epoch));
  }
  return got > 0 && bytes.size() == size;
}

void PeerDial::Claim(Attempt* attempt) {
  PeerNonce& nonce = attempt->acceptor_nonce;
  std::copy(attempt->bytes.begin(), attempt->bytes.end(), nonce.begin());
  attempt->bytes.clear();
  attempt->claim = callee_.claim;
  if (!FillPeerNonce(&attempt->claim.nonce)) return GiveUp(attempt, "OpenSSL gives no random bytes");
  const PeerMac mac = PeerMacOf(callee_.secret, PeerSide::kConnector, nonce, attempt->claim);
  attempt->expected = PeerMacOf(callee_.secret, PeerSide::kAcceptor, nonce, attempt->claim);
  std::string claim = EncodePeerClaim(attempt->claim);
  claim.append(mac.begin(), mac.end());
  // Few bytes fit into a fresh socket's buffer.
  if (send(attempt->fd, claim.data(), claim.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(claim.size()))
    return GiveUp(attempt, strerror(errno));
  attempt->stage = Stage::kProof;
}

void PeerDial::Win(Attempt* attempt) {
  if (send(attempt->fd, &kPeerChosen, 1, MSG_NOSIGNAL) != 1) return GiveUp(attempt, strerror(errno));
  loop_->UnwatchFd(attempt->fd);
  attempt->stage = Stage::kIdle;
  PeerSocket won = {std::exchange(attempt->fd, -1), std::nullopt};
  if (attempt->claim.encrypts) {
    won.secrets = ConnectionSecretsOf(callee_.secret, PeerSide::kConnector, attempt->acceptor_nonce, attempt->claim);
  }
  Finish(won);
}

std::string PeerDial::SilenceIn(Stage stage) {
  switch (stage) {
    case Stage::kNonce:
      return "connected, but what answers there does not greet";
    case Stage::kProof:
      return "connected, but what answers there gives no proof";
    default:
      return "no answer";
  }
}

void PeerDial::GiveUp(Attempt* attempt, std::string trouble) {
  attempt->failed_in = attempt->stage;
  Close(attempt);
  loop_->Cancel(attempt->timer);
  attempt->trouble = std::move(trouble);
  attempt->timer = loop_->RunAfter(attempt->pause.Next(), [this, attempt] { Start(attempt); });
}

void PeerDial::Close(Attempt* attempt) {
  attempt->stage = Stage::kIdle;
  attempt->bytes.clear();
  if (attempt->fd < 0) return;
  loop_->UnwatchFd(attempt->fd);
  close(std::exchange(attempt->fd, -1));
}

void PeerDial::Finish(absl::StatusOr<PeerSocket> result) {
  // The callee may drop this.
  const std::function<void(absl::StatusOr<PeerSocket>)> on_done = std::move(on_done_);
  on_done(std::move(result));
}

std::string PeerDial::Troubles() const {
  if (attempts_.empty()) return "it says no TCP address";
  return absl::StrJoin(attempts_, "; ", [](std::string* out, const std::unique_ptr<Attempt>& attempt) {
    const bool is_further = attempt->stage > attempt->failed_in;
    absl::StrAppend(out, attempt->address.Endpoint(), ": ", is_further ? SilenceIn(attempt->stage) : attempt->trouble);
  });
}

}  // namespace farandole
