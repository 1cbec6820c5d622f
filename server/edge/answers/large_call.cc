#include "server/edge/answers/large_call.h"

#include <utility>

namespace farandole {

LargeCall::LargeCall(UnaryCall* call, grpc::ByteBuffer bytes, google::protobuf::Message* request,
                     std::function<void()> go_on)
    : call_(call), bytes_(std::move(bytes)), request_(request), go_on_(std::move(go_on)) {}

absl::StatusOr<int64_t> LargeCall::Weigh() {
  absl::StatusOr<ReceivedMessage> received = ReceivedMessage::Weigh(bytes_, *request_->GetDescriptor());
  if (!received.ok()) return received.status();
  received_ = *std::move(received);
  bytes_.Clear();
  return received_.memory_bytes();
}

int64_t LargeCall::Read() {
  const int64_t bytes = received_.memory_bytes();
  const absl::Status read = std::exchange(received_, {}).ReadInto(request_);
  if (read.ok()) {
    go_on_();
  } else {
    call_->End(read);
  }
  return bytes;
}

}  // namespace farandole
