#ifndef FARANDOLE_WORKER_CONTROL_CONVERSATION_H_
#define FARANDOLE_WORKER_CONTROL_CONVERSATION_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"

namespace farandole {

// A worker's conversation with the coordinator, from its Join to its end: the stream, the calls, and the time and the
// processes that are watched meanwhile. CoordinatorClient has it over gRPC, a simulation in its own time.
class Conversation {
 public:
  // All are called on the control thread and must not block. Each must be set.
  struct Callbacks {
    // In the order in which the coordinator sent them.
    std::function<void(const v1::CoordinatorMessage&)> on_message;
    // The first message of every stream.
    std::function<v1::Hello()> make_hello;
    // A stream other than the first has sent its hello: send all unanswered messages again. Messages that other threads
    // send between the hello and the first Send of this callback are dropped, as while detached. So that each message
    // is sent once per stream, record a message as unanswered and send it under one lock, and take that lock here.
    std::function<void()> on_attached;
    // Once, and no callback after it: the coordinator said no for good, closed the stream in order (OK), or was away
    // for too long (UNAVAILABLE); RESOURCE_EXHAUSTED: a bound of Send was reached. Not called for Leave or for the
    // destructor. Posted functions and watched descriptors go on.
    std::function<void(absl::Status)> on_ended;
    // At regular intervals until the end, attached or not.
    std::function<void()> on_tick;
  };

  // No callback after it. Not from the control thread; no call of another thread may be running.
  virtual ~Conversation() = default;

  // Any thread: queues a message, in the order of the calls. Dropped while detached, and after the end. At most 65,536
  // messages and 64 MiB wait; one more ends the conversation with RESOURCE_EXHAUSTED.
  virtual void Send(v1::WorkerMessage message) = 0;
  // Any thread: whether a stream is open, so that messages are not dropped, as far as is known.
  virtual bool IsAttached() const = 0;
  // Any thread: runs `function` on the control thread, in the order of the calls.
  virtual void Post(std::function<void()> function) = 0;
  // Any thread: calls `on_exit` once on the control thread when the process `pid` of this host has ended, which may
  // have been before.
  //   RESOURCE_EXHAUSTED  the system can watch no further process (its words are in the text)
  virtual absl::Status WatchProcess(int64_t pid, std::function<void()> on_exit) = 0;
  // The time that ticks go by, in nanoseconds; never goes back, and is the same for all processes of a host.
  virtual int64_t NowNs() const = 0;
  // How far two ticks are apart.
  virtual absl::Duration tick_interval() const = 0;

  // Calls of the checkpoint gate: any thread but the control thread. They block for at most 10 s and try again while
  // the coordinator is unreachable. UNAVAILABLE: no answer within that time; and what worker.proto lists at each.
  // BeginCheckpoint chooses the idempotency key where the request has none.
  virtual absl::StatusOr<v1::BeginCheckpointResponse> BeginCheckpoint(v1::BeginCheckpointRequest request) = 0;
  virtual absl::StatusOr<v1::CommitCheckpointResponse> CommitCheckpoint(v1::CommitCheckpointRequest request) = 0;
  virtual absl::StatusOr<v1::FindCheckpointResponse> FindCheckpoint(v1::FindCheckpointRequest request) = 0;

  // Sends Leave as the last message and waits until the coordinator has answered it by closing the stream, at most
  // `timeout`; if the stream is broken, it is opened anew for that. Then the stream is closed and no callback is called
  // any more. Any thread but the control thread; once.
  virtual void Leave(v1::Leave leave, absl::Duration timeout) = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_CONVERSATION_H_
