#ifndef FARANDOLE_WORKER_CONTROL_PORT_OWNER_H_
#define FARANDOLE_WORKER_CONTROL_PORT_OWNER_H_

#include <stdint.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sockets/socket_end.h"

namespace farandole {

// Without TLS, nothing but the kernel knows whose program has a port of this host. These functions ask it, so that a
// stranger who takes the port of a coordinator that is down gets no token.

// A line of /proc/net/tcp or /proc/net/tcp6 (proc(5)).
struct SocketRow {
  SocketEnd local, remote;
  // The user of the program that made the socket, or has accepted it. It says nothing if `inode` is 0.
  uid_t owner;
  // 0: no program has it. None has accepted it yet, or all have closed it.
  uint64_t inode;
};

// The lines of such a file. It leaves out those that it does not understand.
std::vector<SocketRow> ParseSocketTable(absl::string_view text);

// The two ends of a connection that this process has made.
struct OwnConnection {
  SocketEnd local, remote;
};

// Those that a process trusts besides root and its own user: the user of the packaged service.
inline constexpr char kDefaultCoordinatorUsers[] = "farandole";

// The users whose programs may be the coordinator.
struct TrustedUsers {
  // FARANDOLE_COORDINATOR_USERS=*
  bool anyone = false;
  std::vector<uid_t> users;
  // For people: "root or user 1000 or farandole".
  std::string names;
};

// Root, the process's own user `self`, and those of `listed`: names or numbers with commas between them, "*" for
// anyone,
// "" for kDefaultCoordinatorUsers. A name without a user is skipped. `find` gives a name's user, -1: none.
TrustedUsers ParseTrustedUsers(uid_t self, absl::string_view listed,
                               absl::FunctionRef<uid_t(const std::string& name)> find);

// Whether the other end of a connection to this host belongs to a program of a trusted user; false: to no program,
// since none has accepted it yet, or it has been closed.
//   PERMISSION_DENIED  it is of another user, who is named
//   UNAVAILABLE        there is no row for it
absl::StatusOr<bool> CheckOtherEnd(const OwnConnection& connection, const std::vector<SocketRow>& rows,
                                   const TrustedUsers& trusted);

// Checks each connection of this process to `port` of a loopback address, if something can be sent over it. Ignores one
// that no program has accepted: no server has greeted there, so gRPC sends nothing. Shuts down one whose other end is
// not trusted, or has hung up, so that a later call makes a new one. `listed`: as ParseTrustedUsers takes it.
//   PERMISSION_DENIED  as above, also where the kernel's tables cannot be read
//   UNAVAILABLE        as above, or none of the connections is a trusted program's
absl::Status CheckPortOwner(uint16_t port, absl::string_view listed);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_PORT_OWNER_H_
