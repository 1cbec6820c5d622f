#ifndef FARANDOLE_BASE_SOCKETS_TCP_RETRIES_H_
#define FARANDOLE_BASE_SOCKETS_TCP_RETRIES_H_

#include "absl/strings/string_view.h"

namespace farandole {

// When TCP sends again what a network has lost. Usually it doubles the pause each time: after an outage of 1.5 s it
// tries at 3 s, when a host that nothing was heard of counts as lost. These have the kernel try every 0.2 s for a
// second or so where little is on its way, and at least once a second where the kernel can (Linux 6.15).

// Makes one TCP socket do so; leaves other sockets as they are.
void RetrySooner(int socket);
// Makes all connections of this process to `peer` do so. gRPC does not show its sockets, but says where they lead
// (grpc::ClientContext::peer(): "ipv4:10.0.0.7:7070" or "ipv6:%5Bfd00::7%5D:7070").
void RetryConnectionsSooner(absl::string_view peer);

}  // namespace farandole

#endif  // FARANDOLE_BASE_SOCKETS_TCP_RETRIES_H_
