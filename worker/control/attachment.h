#ifndef FARANDOLE_WORKER_CONTROL_ATTACHMENT_H_
#define FARANDOLE_WORKER_CONTROL_ATTACHMENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/backoff.h"
#include "farandole/v1/worker.grpc.pb.h"
#include "farandole/v1/worker.pb.h"
#include "worker/control/control_loop.h"
#include "worker/control/control_stream.h"
#include "worker/control/coordinator_channel.h"
#include "worker/control/coordinator_client.h"
#include "worker/control/join_call.h"

namespace farandole {

// Keeps one worker attached to its coordinator: opens the stream, opens it again when it breaks, and decides when that
// is of no use any more. Owned by CoordinatorClient. All functions but Send, IsOpen and Shutdown run on the loop's
// thread only.
class Attachment {
 public:
  struct Options {
    CoordinatorAddress where;
    // Sent again to a coordinator that does not know the worker.
    v1::JoinRequest join;
    absl::Duration give_up_after;
    absl::Duration tick_interval;
  };

  // `loop`: shared with the streams, which post to it until gRPC is done with them. `stub` is borrowed.
  Attachment(std::shared_ptr<ControlLoop> loop, v1::WorkerService::StubInterface* stub, Options options,
             Conversation::Callbacks callbacks);

  // Starts the ticks and opens the first stream.
  void Begin();
  // Any thread.
  void Send(v1::WorkerMessage message);
  // Any thread: a stream has taken its hello, and has not ended.
  bool IsOpen() const;
  // Sends `leave` as the last message, now or after the next reattachment; `done` is called once the coordinator has
  // closed the stream, or at once if the attachment has ended. Callbacks stop then.
  void Leave(v1::WorkerMessage leave, std::function<void()> done);
  // Ends without a callback.
  void Close();
  // After the loop was stopped: cancels the calls that gRPC still has and waits for them, for a bounded time.
  void Shutdown();

 private:
  // The fate of a message that is sent.
  enum class Sending { kHeldBack, kQueued, kDropped };

  void OpenStream();
  void HelloWritten(uint64_t number);
  void Resend();
  void ReleaseHeldBack() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MessageReceived(uint64_t number, const v1::CoordinatorMessage& message);
  void StreamDone(uint64_t number, const grpc::Status& status);
  void JoinAnswered(const JoinCall* call);
  void Lost(const grpc::Status& cause);
  void RetryNow();
  void Proven();
  void GiveUp();
  void End(absl::Status status);
  void EndQuietly();
  void Tick();
  bool SendLocked(v1::WorkerMessage message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Overflow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelTimer(ControlLoop::TimerId* timer);

  // shared: see the constructor.
  const std::shared_ptr<ControlLoop> loop_;
  v1::WorkerService::StubInterface* const stub_;
  const Options options_;
  const Conversation::Callbacks callbacks_;

  mutable absl::Mutex mutex_;
  Sending sending_ ABSL_GUARDED_BY(mutex_) = Sending::kHeldBack;
  // The stream that is open or being opened.
  std::unique_ptr<ControlStream> stream_ ABSL_GUARDED_BY(mutex_);
  // While kHeldBack (before the first stream, and during on_attached): the messages of other threads, and whether
  // on_attached has begun to send.
  std::vector<v1::WorkerMessage> held_back_ ABSL_GUARDED_BY(mutex_);
  bool resend_begun_ ABSL_GUARDED_BY(mutex_) = false;

  // Only on the loop's thread, or after it has ended. Events of a stream with another number than this are stale.
  uint64_t stream_number_ = 0;
  bool ended_ = false;
  // The stream has lived long enough, or has brought a message: the coordinator has taken the hello.
  bool proven_ = false;
  // Join before the next stream.
  bool join_first_ = false;
  bool gave_up_while_open_ = false;
  grpc::Status last_cause_;
  Backoff backoff_;
  std::optional<v1::WorkerMessage> leave_;
  bool leave_sent_ = false;
  std::function<void()> leave_done_;
  std::unique_ptr<JoinCall> join_call_;
  // 0: not set.
  ControlLoop::TimerId tick_timer_ = 0;
  ControlLoop::TimerId retry_timer_ = 0;
  ControlLoop::TimerId proof_timer_ = 0;
  ControlLoop::TimerId give_up_timer_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_ATTACHMENT_H_
