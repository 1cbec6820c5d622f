#include "worker/control/port_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"

namespace farandole {
namespace {

constexpr char kSetting[] = "FARANDOLE_COORDINATOR_USERS";
constexpr uid_t kNobodyFound = static_cast<uid_t>(-1);
// The kernel gives a table in parts, between which sockets come and go: a part may lack a row that moved.
constexpr int kReadings = 3;

bool IsLoopback(const in6_addr& address) {
  return IN6_IS_ADDR_LOOPBACK(&address) || (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
}

// "0100007F:1B9E": words of the address as the processor has them, and the port.
std::optional<SocketEnd> ParseEnd(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  uint32_t port = 0;
  if (!absl::SimpleHexAtoi(parts.second, &port) || port > 0xffff) return std::nullopt;
  uint32_t words[4] = {};
  const size_t count = parts.first.size() / 8;
  if (parts.first.size() % 8 != 0 || (count != 1 && count != 4)) return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    if (!absl::SimpleHexAtoi(parts.first.substr(8 * i, 8), &words[i])) return std::nullopt;
  }
  SocketEnd end = {{}, static_cast<uint16_t>(port)};
  if (count == 1) {
    end.address = MappedAddress({words[0]});
  } else {
    memcpy(&end.address, words, sizeof end.address);
  }
  return end;
}

std::optional<OwnConnection> ConnectionOf(int descriptor) {
  const std::optional<SocketEnd> here = OwnEndOf(descriptor), there = PeerEndOf(descriptor);
  if (!here || !there) return std::nullopt;
  return OwnConnection{*here, *there};
}

// The state of TCP, as in <netinet/tcp.h>.
int StateOf(int descriptor) {
  tcp_info info = {};
  socklen_t bytes = sizeof info;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return TCP_CLOSE;
  return info.tcpi_state;
}

// A connection of this process, with a descriptor of our own: the one it was found by may be closed, and its number
// used again, by another thread.
struct HeldConnection {
  OwnConnection ends;
  int descriptor;
  // SO_COOKIE: the kernel gives no number twice.
  uint64_t cookie;
};

// The connections of which the other end is known to be of a user of a list, so that the tables, which take the kernel
// some milliseconds, are read once for each connection.
class KnownConnections {
 public:
  bool Has(const HeldConnection& connection, absl::string_view listed) {
    absl::MutexLock lock(&mutex_);
    return known_.count(Key(connection.cookie, listed)) > 0;
  }
  void Add(const HeldConnection& connection, absl::string_view listed) {
    absl::MutexLock lock(&mutex_);
    if (known_.size() >= kMost) known_.clear();
    known_.emplace(connection.cookie, listed);
  }

 private:
  using Key = std::pair<uint64_t, std::string>;
  static constexpr size_t kMost = 256;

  absl::Mutex mutex_;
  std::set<Key> known_ ABSL_GUARDED_BY(mutex_);
};

absl::Status NotSeen() {
  return absl::UnavailableError(
      absl::StrCat("this process cannot look at its own connections: ", std::generic_category().message(errno)));
}

// Puts a connection of this process to the port of a loopback address to the others, if the descriptor is one over
// which something can be sent. Breaks it if the other side sends no more: it may read still.
absl::Status Hold(int descriptor, uint16_t port, std::vector<HeldConnection>* connections) {
  const auto is_meant = [port](const std::optional<OwnConnection>& ends) {
    return ends && ends->remote.port == port && IsLoopback(ends->remote.address);
  };
  if (!is_meant(ConnectionOf(descriptor))) return absl::OkStatus();
  const int held = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (held < 0) return errno == EBADF ? absl::OkStatus() : NotSeen();
  auto release = absl::MakeCleanup([held] { close(held); });
  const std::optional<OwnConnection> ends = ConnectionOf(held);
  if (!is_meant(ends)) return absl::OkStatus();
  const int state = StateOf(held);
  if (state == TCP_CLOSE_WAIT) shutdown(held, SHUT_RDWR);
  if (state != TCP_ESTABLISHED) return absl::OkStatus();
  uint64_t cookie = 0;
  socklen_t bytes = sizeof cookie;
  if (getsockopt(held, SOL_SOCKET, SO_COOKIE, &cookie, &bytes) != 0) return NotSeen();
  std::move(release).Cancel();
  connections->push_back({*ends, held, cookie});
  return absl::OkStatus();
}

absl::Status HoldAll(uint16_t port, std::vector<HeldConnection>* connections) {
  absl::Status status;
  const auto hold = [&](int descriptor) { status.Update(Hold(descriptor, port, connections)); };
  return ForEachDescriptor(hold) ? status : NotSeen();
}

absl::StatusOr<std::vector<SocketRow>> ReadTables() {
  std::vector<SocketRow> rows;
  bool is_read = false;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(path);
    std::stringstream text;
    if (!file || !(text << file.rdbuf())) continue;  // A kernel may have no IPv6.
    is_read = true;
    std::vector<SocketRow> more = ParseSocketTable(text.str());
    rows.insert(rows.end(), more.begin(), more.end());
  }
  if (is_read) return rows;
  return absl::PermissionDeniedError(
      absl::StrCat("/proc/net/tcp, by which this process knows whose program has the coordinator's port, cannot be "
                   "read: use TLS (FARANDOLE_CA_FILE), or set ",
                   kSetting, "=* where every user of this host is trusted"));
}

// By the tables as they are now, which are read again where they lack the row.
absl::StatusOr<bool> LookUp(const HeldConnection& connection, const TrustedUsers& trusted) {
  absl::StatusOr<bool> is_trusted = false;
  for (int reading = 0; reading < kReadings; ++reading) {
    const absl::StatusOr<std::vector<SocketRow>> rows = ReadTables();
    if (!rows.ok()) return rows.status();
    is_trusted = CheckOtherEnd(connection.ends, *rows, trusted);
    if (!absl::IsUnavailable(is_trusted.status())) break;
  }
  return is_trusted;
}

std::string NameOf(uid_t user) {
  passwd entry, *found = nullptr;
  char text[4096];
  if (getpwuid_r(user, &entry, text, sizeof text, &found) != 0 || found == nullptr)
    return absl::StrCat("number ", user);
  return absl::StrCat(found->pw_name, " (", user, ")");
}

uid_t UserNamed(const std::string& name) {
  passwd entry, *found = nullptr;
  char text[4096];
  if (getpwnam_r(name.c_str(), &entry, text, sizeof text, &found) != 0 || found == nullptr) return kNobodyFound;
  return found->pw_uid;
}

absl::Status Refused(const SocketEnd& end, uid_t owner, const TrustedUsers& trusted) {
  return absl::PermissionDeniedError(
      absl::StrCat("port ", end.port, " of this host belongs to a program of user ", NameOf(owner), ", not of ",
                   trusted.names, ": nothing was sent to it. Name the user who runs the coordinator in ", kSetting,
                   ", or use TLS (FARANDOLE_CA_FILE)"));
}

}  // namespace

std::vector<SocketRow> ParseSocketTable(absl::string_view text) {
  std::vector<SocketRow> rows;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (fields.size() < 10) continue;
    const std::optional<SocketEnd> local = ParseEnd(fields[1]), remote = ParseEnd(fields[2]);
    uid_t owner = 0;
    uint64_t inode = 0;
    if (!local || !remote || !absl::SimpleAtoi(fields[7], &owner) || !absl::SimpleAtoi(fields[9], &inode)) continue;
    rows.push_back({*local, *remote, owner, inode});
  }
  return rows;
}

TrustedUsers ParseTrustedUsers(uid_t self, absl::string_view listed,
                               absl::FunctionRef<uid_t(const std::string& name)> find) {
  TrustedUsers trusted;
  std::vector<std::string> names;
  const auto add = [&](uid_t user, std::string name) {
    if (std::find(trusted.users.begin(), trusted.users.end(), user) != trusted.users.end()) return;
    trusted.users.push_back(user);
    names.push_back(std::move(name));
  };
  add(0, "root");
  add(self, absl::StrCat("user ", self));
  for (const absl::string_view part : absl::StrSplit(listed.empty() ? kDefaultCoordinatorUsers : listed, ',')) {
    const std::string name(absl::StripAsciiWhitespace(part));
    uid_t number = 0;
    if (name == "*") trusted.anyone = true;
    if (absl::SimpleAtoi(name, &number)) {
      add(number, absl::StrCat("user ", number));
    } else if (const uid_t user = find(name); user != kNobodyFound) {
      add(user, name);
    }
  }
  trusted.names = absl::StrJoin(names, " or ");
  return trusted;
}

absl::StatusOr<bool> CheckOtherEnd(const OwnConnection& connection, const std::vector<SocketRow>& rows,
                                   const TrustedUsers& trusted) {
  for (const SocketRow& row : rows) {
    if (!(row.local == connection.remote) || !(row.remote == connection.local)) continue;
    if (row.inode == 0) return false;
    const bool is_trusted =
        trusted.anyone || std::find(trusted.users.begin(), trusted.users.end(), row.owner) != trusted.users.end();
    if (is_trusted) return true;
    return Refused(connection.remote, row.owner, trusted);
  }
  return absl::UnavailableError("the connection has ended");
}

absl::Status CheckPortOwner(uint16_t port, absl::string_view listed) {
  std::vector<HeldConnection> connections;
  const auto release = absl::MakeCleanup([&] {
    for (const HeldConnection& connection : connections) close(connection.descriptor);
  });
  if (absl::Status seen = HoldAll(port, &connections); !seen.ok()) return seen;
  static auto& known = *new KnownConnections();
  std::vector<HeldConnection> unknown;
  for (const HeldConnection& connection : connections) {
    if (!known.Has(connection, listed)) unknown.push_back(connection);
  }
  bool is_any_trusted = unknown.size() < connections.size();
  if (!unknown.empty()) {
    const TrustedUsers trusted = ParseTrustedUsers(geteuid(), listed, UserNamed);
    for (const HeldConnection& connection : unknown) {
      const absl::StatusOr<bool> is_trusted = LookUp(connection, trusted);
      if (absl::IsPermissionDenied(is_trusted.status())) shutdown(connection.descriptor, SHUT_RDWR);
      if (!is_trusted.ok()) return is_trusted.status();
      if (*is_trusted) known.Add(connection, listed);
      is_any_trusted |= *is_trusted;
    }
  }
  return is_any_trusted ? absl::OkStatus() : absl::UnavailableError("no program has accepted the connection");
}

}  // namespace farandole
