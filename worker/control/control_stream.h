#ifndef FARANDOLE_WORKER_CONTROL_CONTROL_STREAM_H_
#define FARANDOLE_WORKER_CONTROL_CONTROL_STREAM_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/steady_notification.h"
#include "farandole/v1/worker.grpc.pb.h"
#include "farandole/v1/worker.pb.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "worker/control/coordinator_channel.h"

namespace farandole {

// One attempt at WorkerService.Attach: writes the hello and then the queued messages, reads one message at a time.
// Owned by its opener, which gives it back by Retire: gRPC must not drop the last reference to a channel, because the
// channel's end joins the very threads that gRPC makes its calls on. All functions may be called from any thread.
class ControlStream : private grpc::ClientBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage> {
 public:
  // Called on gRPC's threads, one at a time in the order of the events, except that `on_hello_written` may overtake
  // `on_message`. They must not block and must not call into the stream.
  struct Events {
    std::function<void()> on_hello_written;
    // The next message is read after ReadNext only, so a slow reader holds the coordinator back instead of growing a
    // queue.
    std::function<void(v1::CoordinatorMessage)> on_message;
    // Exactly once; nothing follows. The stream may be retired then.
    std::function<void(grpc::Status)> on_done;
  };

  // The most that may wait to be written: more than a worker resends for the most slots and groups that a job can have.
  static constexpr size_t kMaxQueuedMessages = 1 << 16;
  static constexpr size_t kMaxQueuedBytes = 64 << 20;

  static std::unique_ptr<ControlStream> Open(v1::WorkerService::StubInterface* stub, const CoordinatorAddress& where,
                                             v1::Hello hello, Events events);
  ~ControlStream() override = default;

  // Queues a message; dropped if the stream is broken. False, and nothing is queued: a bound above is reached.
  bool Send(v1::WorkerMessage message);
  // As Send, after the messages that are queued already; then closes this side of the stream. Nothing may be sent
  // afterwards.
  void SendLast(v1::WorkerMessage message);
  void ReadNext();
  // As grpc::ClientContext::peer(), once the hello is written.
  std::string peer() const { return context_.peer(); }
  // Ends the call, if it has not ended: on_done follows soon.
  void Cancel();
  // Cancels the call, waits until gRPC is done with it, and destroys the stream. If that takes longer than 5 s (gRPC's
  // threads do not run any more, because the process is exiting) the stream is left to gRPC. Not on a thread of gRPC.
  static void Retire(std::unique_ptr<ControlStream> stream);

 private:
  explicit ControlStream(Events events) : events_(std::move(events)) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void Enqueue(v1::WorkerMessage message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Break() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Events events_;
  grpc::ClientContext context_;
  v1::CoordinatorMessage incoming_;
  SteadyNotification done_;

  absl::Mutex mutex_;
  // The first is being written where `writing_`.
  std::deque<v1::WorkerMessage> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool hello_written_ ABSL_GUARDED_BY(mutex_) = false;
  bool last_queued_ ABSL_GUARDED_BY(mutex_) = false;
  // No operation is started any more, and gRPC's hold on the call was given back.
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_CONTROL_STREAM_H_
