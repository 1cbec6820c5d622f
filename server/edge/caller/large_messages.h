#ifndef FARANDOLE_SERVER_EDGE_CALLER_LARGE_MESSAGES_H_
#define FARANDOLE_SERVER_EDGE_CALLER_LARGE_MESSAGES_H_

#include "absl/status/status.h"
#include "server/bytes/byte_ledger.h"
#include "server/registry/tenants.h"

namespace farandole {

// Reading a message takes time and memory before anybody has looked at it, and a small one can be large in memory. So
// the large messages of a tenant have a pace (ByteLedger::LargeMessagesOf), and while they are not paid for, no other
// one is read: its calls are refused, and its streams wait.

// Whether the caller's messages are charged to a pace. Roles of the cluster can find out why the coordinator is busy.
bool HasPace(const Access& access);
// RESOURCE_EXHAUSTED: the large messages of the caller's tenant are not paid for.
absl::Status CheckLargeMessages(ByteLedger* bytes, const Access& access);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_CALLER_LARGE_MESSAGES_H_
