#include "server/edge/answers/large_call.h"

#include <utility>

namespace farandole {

LargeCall::LargeCall(UnaryCall* call, grpc::ByteBuffer bytes, google::protobuf::Message* request,
                     std::function<void(const absl::Status&)> go_on)
    : call_(call), bytes_(std::move(bytes)), request_(request), go_on_(std::move(go_on)) {}

absl::Status LargeCall::Charge(int64_t wire_bytes, Caller caller) {
  caller_ = std::move(caller);
  return Take(wire_bytes);
}

absl::Status LargeCall::Take(int64_t bytes) {
  charge_.Release();
  if (caller_.account == nullptr) return absl::OkStatus();
  return caller_.account->Take(ByteKind::kRequests, bytes, ByteClass::kJob, &charge_);
}

absl::Status LargeCall::WaitOn() {
  return call_->context().IsCancelled() ? absl::CancelledError("its client has gone") : caller_.check_standing();
}

absl::StatusOr<int64_t> LargeCall::Weigh() {
  // It may have been weighed already, before it had to wait.
  if (bytes_.Valid()) {
    absl::StatusOr<ReceivedMessage> received = ReceivedMessage::Weigh(bytes_, *request_->GetDescriptor());
    if (!received.ok()) return received.status();
    received_ = *std::move(received);
    bytes_.Clear();
  }
  if (absl::Status room = Take(received_.memory_bytes()); !room.ok()) return room;
  return received_.memory_bytes();
}

int64_t LargeCall::Read() {
  const int64_t bytes = received_.memory_bytes();
  const absl::Status read = std::exchange(received_, {}).ReadInto(request_);
  call_->Charge(std::move(charge_));
  go_on_(read);
  return bytes;
}

}  // namespace farandole
