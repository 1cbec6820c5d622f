#ifndef FARANDOLE_SERVER_EDGE_ANSWERS_UNARY_CALL_H_
#define FARANDOLE_SERVER_EDGE_ANSWERS_UNARY_CALL_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "grpcpp/alarm.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/bytes/byte_account.h"
#include "server/edge/messages/begun_messages.h"
#include "server/edge/messages/reading_places.h"

namespace farandole {

// A client that has not read an answer after so long, and a second more for each 128 KiB, does not get it.
inline constexpr absl::Duration kUnreadLimit = absl::Seconds(30);

// A client sends a call's message with its headers. A call whose message has not come after so long ends.
inline constexpr absl::Duration kMessageLimit = absl::Seconds(10);

// The bytes that an answer takes until its client has read it: gRPC keeps the call, the message and what it has
// serialized, and counts none of these in its ResourceQuota.
int64_t BytesOfAnswer(const google::protobuf::Message& answer);

// A unary call, from its headers on: its message, what that asks, and its end. To gRPC it is a stream, which is there
// before its message. Keeps what was asked, and its charge, until it ends; and the charge of its answer until gRPC has
// written that or has given the call up. Cancels the call where that takes longer than the limit. Owned by itself until
// gRPC is done with it; any thread.
class UnaryCall : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                  public std::enable_shared_from_this<UnaryCall> {
 public:
  static UnaryCall* Start(grpc::CallbackServerContext* context, absl::Duration unread_limit = kUnreadLimit);

  // To be called once: has `take` called with the message when it has come, which then ends the call. Where it has not
  // come after `limit`, or the client goes, the call ends without that.
  void Await(std::function<void(grpc::ByteBuffer)> take, absl::Duration limit = kMessageLimit)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Reports the message, and the end of the call, from now on.
  void Report(BegunMessages::Call to) ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads the message, unless the call has ended. Gives the place back when that has come.
  void Read(ReadingPlaces::Place place) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends a call whose message is awaited, at once.
  void Refuse(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  // To be set before the call ends. The request is kept until then, the response until gRPC is done with the call.
  void Keep(std::unique_ptr<google::protobuf::Message> request, std::unique_ptr<google::protobuf::Message> response) {
    request_ = std::move(request);
    response_ = std::move(response);
  }
  // Holds the charge of a large request; to be called before the call ends.
  void Charge(ByteCharge charge) { request_charge_ = std::move(charge); }
  // Until the call ends.
  const grpc::CallbackServerContext& context() const { return *told_; }

  // In place of Finish, to be called once: answers the call at once, or after a fifth of a second where the status says
  // when to retry. The request is gone on return.
  void End(const absl::Status& status, ByteCharge charge = {}) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  UnaryCall(grpc::CallbackServerContext* context, absl::Duration unread_limit)
      : unread_limit_(unread_limit), told_(context), context_(context) {}

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  // True to one caller: the message, or the end of the call before it, is its to deal with.
  bool StopAwaiting() ABSL_LOCKS_EXCLUDED(mutex_);
  void FinishInTime(const absl::Status& status, ByteCharge charge) ABSL_LOCKS_EXCLUDED(mutex_);
  void CancelIfUnread() ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration unread_limit_;
  const grpc::CallbackServerContext* const told_;
  std::function<void(grpc::ByteBuffer)> take_;
  // The message, then the answer.
  grpc::ByteBuffer bytes_;
  std::unique_ptr<google::protobuf::Message> request_;
  ByteCharge request_charge_;
  std::unique_ptr<google::protobuf::Message> response_;
  // Kept until OnDone: gRPC holds the object by a plain pointer.
  std::shared_ptr<UnaryCall> self_;
  absl::Mutex mutex_;
  bool is_awaiting_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_reading_ ABSL_GUARDED_BY(mutex_) = false;
  ReadingPlaces::Place place_ ABSL_GUARDED_BY(mutex_);
  BegunMessages::Call reported_ ABSL_GUARDED_BY(mutex_);
  grpc::Alarm message_alarm_ ABSL_GUARDED_BY(mutex_);
  // Null: gRPC is done with the call.
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_);
  ByteCharge charge_ ABSL_GUARDED_BY(mutex_);
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ANSWERS_UNARY_CALL_H_
