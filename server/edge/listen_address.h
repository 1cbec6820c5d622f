#ifndef FARANDOLE_SERVER_EDGE_LISTEN_ADDRESS_H_
#define FARANDOLE_SERVER_EDGE_LISTEN_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole {

// HOST:PORT, where a server listens. An IPv6 address stands in brackets; port 0 means any free one.
struct ListenAddress {
  std::string host;
  uint16_t port = 0;
  std::string Text() const;
};

// INVALID_ARGUMENT: `text` is not HOST:PORT; `flag` ("--listen") names it in the sentence.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text, absl::string_view flag);

// Whether all that the host stands for is this machine's loopback. INVALID_ARGUMENT: the host cannot be resolved.
absl::StatusOr<bool> IsLoopback(const ListenAddress& address, absl::string_view flag);

// Checks whether a server could listen on the address now. The error message gives the reason and a remedy.
//   ALREADY_EXISTS     another process listens there
//   PERMISSION_DENIED  this process lacks the rights for the port
//   INVALID_ARGUMENT   the host is not an address of this machine
absl::Status CheckBindable(const ListenAddress& address, absl::string_view flag);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_LISTEN_ADDRESS_H_
