#include "server/edge/messages/received_message.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/proto_buffer_writer.h"

namespace farandole {

absl::StatusOr<ReceivedMessage> ReceivedMessage::Weigh(const grpc::ByteBuffer& bytes,
                                                       const google::protobuf::Descriptor& type) {
  ReceivedMessage message;
  // An empty message has no bytes at all.
  if (bytes.Valid() && bytes.Length() > 0 && !bytes.DumpToSingleSlice(&message.bytes_).ok())
    return absl::InternalError(absl::StrCat("the bytes of a message ", type.name(), " cannot be taken"));
  const absl::string_view wire(reinterpret_cast<const char*>(message.bytes_.begin()), message.bytes_.size());
  absl::StatusOr<MessageWeight> weight = WeighMessage(wire, type);
  if (!weight.ok()) return weight.status();
  message.weight_ = *weight;
  return message;
}

absl::Status ReceivedMessage::ReadInto(google::protobuf::Message* message) const {
  if (!message->ParseFromArray(bytes_.begin(), static_cast<int>(bytes_.size())))
    return absl::InvalidArgumentError(absl::StrCat("what was sent is no message ", message->GetDescriptor()->name()));
  if (weight_.has_unknown) message->DiscardUnknownFields();
  return absl::OkStatus();
}

grpc::ByteBuffer ToBytes(const google::protobuf::Message& message) {
  grpc::ByteBuffer bytes;
  const auto size = static_cast<int>(message.ByteSizeLong());
  grpc::ProtoBufferWriter writer(&bytes, grpc::kProtoBufferWriterMaxBufferLength, size);
  message.SerializeToZeroCopyStream(&writer);
  return bytes;
}

}  // namespace farandole
