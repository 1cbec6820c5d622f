#ifndef FARANDOLE_SERVER_EDGE_ANSWERS_LARGE_CALL_H_
#define FARANDOLE_SERVER_EDGE_ANSWERS_LARGE_CALL_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/bytes/byte_account.h"
#include "server/edge/answers/unary_call.h"
#include "server/edge/messages/large_reader.h"
#include "server/edge/messages/received_message.h"

namespace farandole {

// A unary call whose message is large. Owned by LargeReader.
class LargeCall : public LargeMessage {
 public:
  // The caller, while the message waits.
  struct Caller {
    // The account of its tenant. Null: nothing is charged.
    std::shared_ptr<ByteAccount> account;
    // OK, or why it may not go on.
    std::function<absl::Status()> check_standing;
  };

  // `call` is kept until it ends, and `request`, into which the message is read, with it; then `go_on` is called, with
  // the error of a message that cannot be read, which is to end the call.
  LargeCall(UnaryCall* call, grpc::ByteBuffer bytes, google::protobuf::Message* request,
            std::function<void(const absl::Status&)> go_on);

  // Before it waits to be read: charges so many bytes, and when it is weighed those that it takes in memory in their
  // place. Errors: ByteAccount::Take's.
  absl::Status Charge(int64_t wire_bytes, Caller caller);

  // Errors: it cannot be read, or its tenant has no room for it.
  absl::StatusOr<int64_t> Weigh() override;
  int64_t Read() override;
  void Refuse(const absl::Status& status) override { call_->End(status); }
  absl::Status WaitOn() override;

 private:
  absl::Status Take(int64_t bytes);

  UnaryCall* const call_;
  // Until it is weighed.
  grpc::ByteBuffer bytes_;
  google::protobuf::Message* const request_;
  const std::function<void(const absl::Status&)> go_on_;
  // From then on, until it is read.
  ReceivedMessage received_;
  Caller caller_;
  ByteCharge charge_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ANSWERS_LARGE_CALL_H_
