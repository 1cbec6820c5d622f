#include "worker/transport/shm/host_door.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/sha256.h"
#include "base/steady_time.h"

namespace farandole {
namespace {

constexpr uint32_t kMagic = 0x46444f31;  // "FDO1"
constexpr int kMacBytes = kSha256Bytes;
constexpr int kNonceBytes = 16;
constexpr absl::Duration kSlice = absl::Milliseconds(100);
// Between two attempts to connect to a door whose backlog is full.
constexpr absl::Duration kRetry = absl::Milliseconds(10);
// A connection that says nothing must not keep the others waiting.
constexpr absl::Duration kHandshakeLimit = absl::Seconds(2);
constexpr int kMostCalls = 5;
constexpr absl::string_view kScheme = "unix-abstract:";

struct Greeting {
  uint32_t magic;
  uint32_t rank;
  uint64_t epoch;
  unsigned char nonce[kNonceBytes];
};
struct Challenge {
  unsigned char nonce[kNonceBytes];
  unsigned char mac[kMacBytes];
};

void Mac(const std::string& secret, char side, const Greeting& greeting, const unsigned char* nonce,
         unsigned char* mac) {
  std::string text(1, side);
  text.append(reinterpret_cast<const char*>(&greeting), sizeof(greeting));
  text.append(reinterpret_cast<const char*>(nonce), kNonceBytes);
  memcpy(mac, HmacSha256(secret, text).data(), kMacBytes);
}

// Waits for `events`, of no descriptor (-1) for none, at most until `deadline`. A signal does not end it: programs have
// theirs while they start.
bool Await(int fd, short events, absl::Time deadline) {
  for (;;) {
    struct pollfd entry = {fd, events, 0};
    const int64_t left = std::max<int64_t>(0, absl::ToInt64Milliseconds(deadline - SteadyNow()));
    const int found = poll(&entry, 1, static_cast<int>(left));
    if (found >= 0 || errno != EINTR) return found > 0;
  }
}

bool ReadAll(int fd, void* to, size_t bytes, absl::Time deadline) {
  char* at = static_cast<char*>(to);
  while (bytes > 0) {
    if (!Await(fd, POLLIN, deadline)) return false;
    const ssize_t got = recv(fd, at, bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool WriteAll(int fd, const void* from, size_t bytes) {
  // The few bytes of a handshake fit into the socket's buffer.
  return send(fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes);
}

bool SendDescriptor(int connection, int fd) {
  char byte = 1;
  struct iovec part = {&byte, 1};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  struct msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  return sendmsg(connection, &message, MSG_NOSIGNAL) == 1;
}

int ReceiveDescriptor(int connection, absl::Time deadline) {
  if (!Await(connection, POLLIN, deadline)) return -1;
  char byte = 0;
  struct iovec part = {&byte, 1};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  struct msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  int fd = -1;
  memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return fd;
}

bool IsOwnUser(int connection) {
  struct ucred peer = {};
  socklen_t bytes = sizeof(peer);
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

socklen_t AbstractAddress(absl::string_view name, struct sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const size_t bytes = std::min(name.size(), sizeof(address->sun_path) - 1);
  memcpy(address->sun_path + 1, name.data(), bytes);
  return static_cast<socklen_t>(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
}

// One connection to another's door.
struct DoorCall {
  const HostDoor::Terms& terms;
  const absl::string_view endpoint;
  const absl::string_view name;
  const int rank;
  bool was_cut_off = false;

  absl::StatusOr<int> Try();
  absl::Status Connect(int connection) const;
  absl::Status NoAnswer() const;
  absl::Status AwaitAnswer(int connection) const;
  absl::StatusOr<int> Shake(int connection);
};

absl::StatusOr<int> DoorCall::Try() {
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0) return absl::ResourceExhaustedError(absl::StrCat("no socket: ", strerror(errno)));
  const absl::Status connected = Connect(connection);
  absl::StatusOr<int> fd = connected.ok() ? Shake(connection) : connected;
  close(connection);
  return fd;
}

// The door takes no more while its backlog is full, which any user of the host can bring about.
absl::Status DoorCall::Connect(int connection) const {
  struct sockaddr_un address;
  const socklen_t bytes = AbstractAddress(name, &address);
  while (connect(connection, reinterpret_cast<struct sockaddr*>(&address), bytes) != 0) {
    if (errno != EAGAIN && errno != EINTR) {
      return absl::UnavailableError(
          absl::StrCat("the host's first rank cannot be reached at ", endpoint, ": ", strerror(errno)));
    }
    if (absl::Status status = terms.give_up(); !status.ok()) return status;
    if (SteadyNow() >= terms.deadline) return NoAnswer();
    Await(-1, 0, std::min(terms.deadline, SteadyNow() + kRetry));
  }
  return absl::OkStatus();
}

absl::Status DoorCall::NoAnswer() const {
  return absl::DeadlineExceededError(absl::StrCat("the host's first rank did not answer at ", endpoint));
}

// The first rank serves the others one after the other, and may not have formed its epoch yet.
absl::Status DoorCall::AwaitAnswer(int connection) const {
  while (!Await(connection, POLLIN, std::min(terms.deadline, SteadyNow() + kSlice))) {
    if (absl::Status status = terms.give_up(); !status.ok()) return status;
    if (SteadyNow() >= terms.deadline) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<int> DoorCall::Shake(int connection) {
  Greeting greeting = {kMagic, static_cast<uint32_t>(rank), terms.epoch, {}};
  Challenge challenge;
  bool good = RAND_bytes(greeting.nonce, kNonceBytes) == 1 && WriteAll(connection, &greeting, sizeof(greeting));
  if (good) {
    if (absl::Status gave_up = AwaitAnswer(connection); !gave_up.ok()) return gave_up;
    good = ReadAll(connection, &challenge, sizeof(challenge), terms.deadline);
  }
  unsigned char mac[kMacBytes] = {};
  if (good) {
    Mac(terms.secret, 's', greeting, challenge.nonce, mac);
    if (CRYPTO_memcmp(mac, challenge.mac, kMacBytes) != 0) {
      return absl::PermissionDeniedError(
          absl::StrCat("what answers at ", endpoint, " does not know this epoch's secret"));
    }
    Mac(terms.secret, 'c', greeting, challenge.nonce, mac);
    if (WriteAll(connection, mac, sizeof(mac))) {
      const int fd = ReceiveDescriptor(connection, terms.deadline);
      if (fd >= 0) return fd;
    }
  }
  if (SteadyNow() >= terms.deadline) return NoAnswer();
  was_cut_off = true;
  return absl::PermissionDeniedError(
      absl::StrCat("what answers at ", endpoint, " does not expect rank ", rank, " of epoch ", terms.epoch));
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostDoor>> HostDoor::Open() {
  unsigned char random[16];
  if (RAND_bytes(random, sizeof(random)) != 1) return absl::InternalError("OpenSSL gives no random bytes");
  const std::string name = absl::StrCat(
      "farandole-", absl::BytesToHexString(absl::string_view(reinterpret_cast<char*>(random), sizeof(random))));
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  struct sockaddr_un address;
  const socklen_t bytes = AbstractAddress(name, &address);
  if (fd < 0 || bind(fd, reinterpret_cast<struct sockaddr*>(&address), bytes) != 0 || listen(fd, 1024) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return absl::ResourceExhaustedError(absl::StrCat("cannot listen for this host's workers: ", strerror(error)));
  }
  return std::unique_ptr<HostDoor>(new HostDoor(fd, absl::StrCat(kScheme, name)));
}

HostDoor::~HostDoor() { close(fd_); }

int HostDoor::Serve(int connection, const Terms& terms, int fd, const std::vector<int>& peers) {
  const absl::Time deadline = std::min(terms.deadline, SteadyNow() + kHandshakeLimit);
  Greeting greeting;
  if (!IsOwnUser(connection) || !ReadAll(connection, &greeting, sizeof(greeting), deadline)) return -1;
  const int rank = static_cast<int>(greeting.rank);
  if (greeting.magic != kMagic || greeting.epoch != terms.epoch ||
      std::find(peers.begin(), peers.end(), rank) == peers.end())
    return -1;
  Challenge challenge;
  if (RAND_bytes(challenge.nonce, kNonceBytes) != 1) return -1;
  Mac(terms.secret, 's', greeting, challenge.nonce, challenge.mac);
  unsigned char answer[kMacBytes];
  unsigned char expected[kMacBytes];
  Mac(terms.secret, 'c', greeting, challenge.nonce, expected);
  if (!WriteAll(connection, &challenge, sizeof(challenge)) || !ReadAll(connection, answer, sizeof(answer), deadline))
    return -1;
  if (CRYPTO_memcmp(answer, expected, kMacBytes) != 0) return -1;
  return SendDescriptor(connection, fd) ? rank : -1;
}

absl::Status HostDoor::Offer(const Terms& terms, int fd, std::vector<int> peers) {
  while (!peers.empty()) {
    if (absl::Status status = terms.give_up(); !status.ok()) return status;
    if (SteadyNow() >= terms.deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("rank ", absl::StrJoin(peers, ", "), " did not connect to this host's first rank in time"));
    }
    if (!Await(fd_, POLLIN, std::min(terms.deadline, SteadyNow() + kSlice))) continue;
    const int connection = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    const int rank = Serve(connection, terms, fd, peers);
    close(connection);
    peers.erase(std::remove(peers.begin(), peers.end(), rank), peers.end());
  }
  return absl::OkStatus();
}

absl::StatusOr<int> HostDoor::Enter(absl::string_view endpoint, const Terms& terms, int rank) {
  absl::string_view name = endpoint;
  if (!absl::ConsumePrefix(&name, kScheme)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot reach the host's first rank at ", endpoint, ": not a ", kScheme, " endpoint"));
  }
  for (int attempt = 1;; ++attempt) {
    DoorCall call = {terms, endpoint, name, rank};
    const absl::StatusOr<int> fd = call.Try();
    // Cut off in the middle: the first rank does that to slow peers, and on a busy machine processes are slow.
    if (fd.ok() || !call.was_cut_off || attempt == kMostCalls) return fd;
    if (absl::Status status = terms.give_up(); !status.ok()) return status;
  }
}

}  // namespace farandole
