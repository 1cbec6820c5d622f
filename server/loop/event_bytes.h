#ifndef FARANDOLE_SERVER_LOOP_EVENT_BYTES_H_
#define FARANDOLE_SERVER_LOOP_EVENT_BYTES_H_

#include <cstdint>

#include "google/protobuf/message.h"
#include "server/bytes/byte_kind.h"
#include "server/job/rules/actions.h"
#include "server/job/rules/event.h"

namespace farandole {

// The bytes of an event in memory while it waits, with its place in the queues.
int64_t BytesOf(const Event& event);
// As an event, or as a message that waits for a worker.
int64_t BytesOf(const google::protobuf::Message& message);
int64_t BytesOf(const Reply& reply);
// The bytes of an event whose message takes `message_bytes`.
int64_t BytesOfEvent(int64_t message_bytes);

// The class of the event's caller: a running job, a caller that wants to join or launch, or an observer.
ByteClass ClassOf(const Event& event);
// For how much reading of ended jobs, in time, the tenant of such a call may not have paid. A search for a checkpoint,
// which needs no more rights than a look, leaves as much again to those who launch, join and end jobs.
absl::Duration MayOwe(const Event& event);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_EVENT_BYTES_H_
