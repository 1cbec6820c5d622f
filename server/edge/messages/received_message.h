#ifndef FARANDOLE_SERVER_EDGE_MESSAGES_RECEIVED_MESSAGE_H_
#define FARANDOLE_SERVER_EDGE_MESSAGES_RECEIVED_MESSAGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "server/edge/messages/message_weight.h"

namespace farandole {

// The bytes of a message that gRPC has received, which nobody has read yet.
class ReceivedMessage {
 public:
  // No message.
  ReceivedMessage() = default;
  // Weighs the bytes of a message of this type. Errors: WeighMessage's.
  static absl::StatusOr<ReceivedMessage> Weigh(const grpc::ByteBuffer& bytes, const google::protobuf::Descriptor& type);

  // The bytes of memory that the message takes when it is read.
  int64_t memory_bytes() const { return weight_.memory_bytes; }
  // Without its unknown fields: nobody checks their bounds, and each copy that is kept has them. INVALID_ARGUMENT: the
  // bytes are not that message after all.
  absl::Status ReadInto(google::protobuf::Message* message) const;

 private:
  grpc::Slice bytes_;
  MessageWeight weight_;
};

// For gRPC to send.
grpc::ByteBuffer ToBytes(const google::protobuf::Message& message);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_MESSAGES_RECEIVED_MESSAGE_H_
