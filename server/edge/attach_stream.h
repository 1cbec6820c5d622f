#ifndef FARANDOLE_SERVER_EDGE_ATTACH_STREAM_H_
#define FARANDOLE_SERVER_EDGE_ATTACH_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "grpcpp/alarm.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/bytes/byte_account.h"
#include "server/bytes/pace.h"
#include "server/edge/call_router.h"
#include "server/edge/messages/received_message.h"
#include "server/job/rules/actions.h"
#include "server/registry/job_key.h"
#include "server/registry/tenants.h"

namespace farandole {

// One worker's Attach stream. Shared by gRPC (until OnDone), by the StreamTable, and by threads that are sending; after
// OnDone it is an empty shell in which nothing happens. Messages go to the mailbox of the job that `hello` named.
//
// Messages come as bytes, and are weighed before they are read. LargeReader does both for a large one, when its tenant
// has paid for those before it; meanwhile the job is told twice in a second that the worker lives.
//
// Where the job's account has no room for a message (ByteLedger), the stream reads no further until there is, and so
// the worker's own queue fills. It does so too where the tenant sends faster than it may (Pace): for half a second at
// the most, and after a message of some size until that is paid for. A worker that sends is not taken for silent.
//
// Ends by the job's CloseStream, or by itself: RESOURCE_EXHAUSTED if a queue is full (the worker may attach again,
// after the time that the status says) or if a message is larger than what one may have, INVALID_ARGUMENT if the first
// message is not `hello`, UNAUTHENTICATED if its token has ended, UNAVAILABLE if the coordinator stops; in these cases
// the job gets a StreamClosed.
class AttachStream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                     public std::enable_shared_from_this<AttachStream> {
 public:
  // `router` outlives the stream.
  static AttachStream* Start(CallRouter* router, grpc::CallbackServerContext* context, absl::StatusOr<Access> access);

  // Any thread. Queues a message; nothing happens where the stream has ended.
  void Send(SharedMessage message, SharedCharge charge) ABSL_LOCKS_EXCLUDED(mutex_);
  // Any thread. Ends the stream after the queued messages; the job gets no StreamClosed.
  void Close(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Any thread. Ends the stream if its token has ended; the job gets a StreamClosed.
  void CheckStanding() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  AttachStream(CallRouter* router, grpc::CallbackServerContext* context, Access access);

  // Reads the first message.
  void ReadHello(ReadingPlaces::Place place);
  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

  // Incoming; OnReadDone, Resume and LargeReader call these, never two at once.
  // The message that has come, for LargeReader.
  class Large;
  absl::StatusOr<int64_t> Weigh();
  void AwaitReader(int64_t wire_bytes);
  // Reads the message that was weighed. Returns what it costs if it is large.
  int64_t ReadMessage();
  void TakeIn();
  // Tells the job that the worker lives, whose message has not been read yet. Errors: those of
  // LargeMessage::WaitOn.
  absl::Status WaitOn() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the stream for a message that cannot be read, of so many bytes, which is paid for.
  void Refuse(const absl::Status& status, int64_t bytes);
  // Reads the next message, at once or when the tenant may send it; `bytes` are what this one costs.
  void ReadOn(int64_t bytes);
  // Reads the next message, or tells the job that the worker lives, and waits on.
  void AwaitPace();
  // Finds out whose the stream is.
  absl::Status Identify(const v1::Hello& hello);
  // Makes room for the message that was read.
  absl::Status MakeRoom(ByteCharge* charge);
  absl::Status Open(v1::Hello hello, ByteCharge charge);
  absl::Status Receive(ByteCharge charge);
  // Charges a message that waits. False: there are too many, and the stream has ended.
  bool Hold(int64_t bytes);
  // Holds the message, which was read, until there is room.
  void Pause();
  // Has Resume called after the delay; returns the alarm that does so, and does so at once when it is cancelled.
  std::shared_ptr<grpc::Alarm> ResumeAfter(absl::Duration delay);
  void Resume() ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls `go_on` unless the stream has ended; where it has broken, has gRPC say so.
  void ResumeBy(absl::FunctionRef<void()> go_on) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnReadsEnded();

  // Outgoing.
  // Why no message more can wait for the worker; OK: it can.
  absl::Status CheckQueue(const SharedCharge& charge) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ClearQueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  bool End(const absl::Status& status, bool discard_queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Proceed() ABSL_LOCKS_EXCLUDED(mutex_);
  void TellJob(absl::string_view evidence);
  void CancelAfter(absl::Duration delay, grpc::Alarm* alarm, bool only_unopened);

  CallRouter* const router_;
  const Access access_;
  const std::string peer_;
  // Kept until OnDone: gRPC holds the object by a plain pointer.
  std::shared_ptr<AttachStream> self_;

  // For the reading callback only.
  grpc::ByteBuffer bytes_;
  // Until it is read; and then, with its weight.
  ReceivedMessage received_;
  v1::WorkerMessage incoming_;
  int64_t incoming_bytes_ = 0;
  JobKey key_;
  // Null: nothing is charged. Shared with its charges. The account is the tenant's until the hello has named the job.
  std::shared_ptr<ByteAccount> account_;
  std::shared_ptr<Pace> pace_;
  // While it waits until it may read on, and when that is.
  std::optional<Pace::Waiter> waiter_;
  absl::Time reads_at_;
  // The charge of a message that waits, to be read or for room.
  ByteCharge paused_;
  bool waits_for_room_ = false;

  absl::Mutex mutex_;
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_);
  // 0: no hello yet.
  StreamId id_ ABSL_GUARDED_BY(mutex_) = 0;
  struct Queued {
    SharedMessage message;
    SharedCharge charge;
  };
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // Threads that are about to read on: until they do, gRPC must not be told that the stream is finished.
  int resuming_ ABSL_GUARDED_BY(mutex_) = 0;
  bool close_alarm_set_ ABSL_GUARDED_BY(mutex_) = false;
  // The message that gRPC is writing, and its bytes; no other thread touches them while `writing_`.
  Queued outgoing_;
  grpc::ByteBuffer outgoing_bytes_;
  grpc::Alarm hello_alarm_;
  // Until the hello is read, or the stream is cancelled before.
  std::atomic<bool> awaits_place_{true};
  // Until the hello has come.
  ReadingPlaces::Place hello_place_;
  // Until gRPC is done with the stream.
  BegunMessages::Call reported_;
  grpc::Alarm close_alarm_;
  // Ends the present pause; shared with the account, which wakes it.
  std::shared_ptr<grpc::Alarm> resume_alarm_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ATTACH_STREAM_H_
