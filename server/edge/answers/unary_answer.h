#ifndef FARANDOLE_SERVER_EDGE_ANSWERS_UNARY_ANSWER_H_
#define FARANDOLE_SERVER_EDGE_ANSWERS_UNARY_ANSWER_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "grpcpp/alarm.h"
#include "grpcpp/grpcpp.h"
#include "server/bytes/byte_account.h"

namespace farandole {

// A client that has not read an answer after so long, and a second more for each 128 KiB, does not get it.
inline constexpr absl::Duration kUnreadLimit = absl::Seconds(30);

// The bytes that an answer takes until its client has read it: gRPC keeps the call, the message and what it has
// serialized, and counts none of these in its ResourceQuota.
int64_t BytesOfAnswer(const google::protobuf::Message& answer);

// The end of a unary call. Keeps the charge of its answer until gRPC has written it or has given the call up, and
// cancels the call where that takes longer than the limit. Owned by itself until gRPC is done with it; any thread.
class UnaryAnswer : public grpc::ServerUnaryReactor, public std::enable_shared_from_this<UnaryAnswer> {
 public:
  static UnaryAnswer* Start(grpc::CallbackServerContext* context, absl::Duration unread_limit = kUnreadLimit);

  // In place of Finish, to be called once: answers the call at once, or after a fifth of a second where the status says
  // when to retry.
  void End(const absl::Status& status, ByteCharge charge = {}) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  UnaryAnswer(grpc::CallbackServerContext* context, absl::Duration unread_limit)
      : unread_limit_(unread_limit), context_(context) {}

  void OnDone() override;
  void FinishInTime(const absl::Status& status, ByteCharge charge) ABSL_LOCKS_EXCLUDED(mutex_);
  void CancelIfUnread() ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration unread_limit_;
  // Kept until OnDone: gRPC holds the object by a plain pointer.
  std::shared_ptr<UnaryAnswer> self_;
  absl::Mutex mutex_;
  // Null: gRPC is done with the call.
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_);
  ByteCharge charge_ ABSL_GUARDED_BY(mutex_);
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ANSWERS_UNARY_ANSWER_H_
