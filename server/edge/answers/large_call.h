#ifndef FARANDOLE_SERVER_EDGE_ANSWERS_LARGE_CALL_H_
#define FARANDOLE_SERVER_EDGE_ANSWERS_LARGE_CALL_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/edge/answers/unary_call.h"
#include "server/edge/messages/large_reader.h"
#include "server/edge/messages/received_message.h"

namespace farandole {

// A unary call whose message is large. Owned by LargeReader.
class LargeCall : public LargeMessage {
 public:
  // `call` is kept until it ends, and `request`, into which the message is read, with it; then `go_on` is called.
  LargeCall(UnaryCall* call, grpc::ByteBuffer bytes, google::protobuf::Message* request, std::function<void()> go_on);

  absl::StatusOr<int64_t> Weigh() override;
  int64_t Read() override;
  void Refuse(const absl::Status& status) override { call_->End(status); }
  bool IsGone() const override { return call_->context().IsCancelled(); }

 private:
  UnaryCall* const call_;
  grpc::ByteBuffer bytes_;
  google::protobuf::Message* const request_;
  const std::function<void()> go_on_;
  ReceivedMessage received_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ANSWERS_LARGE_CALL_H_
