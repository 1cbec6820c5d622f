#include "server/edge/messages/message_weight.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

namespace farandole {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Measured over the empty messages of the protocol: 104 to 147 bytes each with its pointer and its place on the heap.
constexpr int64_t kMessageBytes = 160;
constexpr int64_t kTextBytes = 56;
constexpr int64_t kNumberBytes = 8;
// As deep as messages are read.
constexpr int kMostDepth = 100;

class Scale {
 public:
  // Whether the bytes up to the stream's limit are a message of this type.
  bool Add(CodedInputStream* wire, const Descriptor& type, int depth) {
    if (depth > kMostDepth) return false;
    const FieldDescriptor* field = nullptr;
    int last = 0;
    while (const uint32_t tag = wire->ReadTag()) {
      const int number = WireFormatLite::GetTagFieldNumber(tag);
      if (number == 0) return false;
      if (number != last) field = type.FindFieldByNumber(number);
      last = number;
      if (field == nullptr) AddPart(kNumberBytes + kTextBytes);
      weight_.has_unknown |= field == nullptr;
      if (!AddValue(wire, WireFormatLite::GetTagWireType(tag), field, depth) || parts_ > kMostParts) return false;
    }
    return wire->ConsumedEntireMessage();
  }
  const MessageWeight& weight() const { return weight_; }
  int64_t parts() const { return parts_; }

 private:
  void AddPart(int64_t bytes) {
    ++parts_;
    weight_.memory_bytes += bytes;
  }
  bool AddValue(CodedInputStream* wire, WireFormatLite::WireType kind, const FieldDescriptor* field, int depth) {
    uint64_t number = 0;
    switch (kind) {
      case WireFormatLite::WIRETYPE_VARINT:
        weight_.memory_bytes += kNumberBytes;
        return wire->ReadVarint64(&number);
      case WireFormatLite::WIRETYPE_FIXED64:
        weight_.memory_bytes += kNumberBytes;
        return wire->Skip(8);
      case WireFormatLite::WIRETYPE_FIXED32:
        weight_.memory_bytes += kNumberBytes;
        return wire->Skip(4);
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        return AddBlock(wire, field, depth);
      default:
        // No message of ours has groups, and unknown ones within each other take the most memory for their bytes.
        return false;
    }
  }
  bool AddBlock(CodedInputStream* wire, const FieldDescriptor* field, int depth) {
    uint32_t bytes = 0;
    if (!wire->ReadVarint32(&bytes)) return false;
    if (static_cast<int64_t>(bytes) > wire->BytesUntilLimit()) return false;
    if (field != nullptr && field->message_type() != nullptr) {
      AddPart(kMessageBytes);
      const CodedInputStream::Limit limit = wire->PushLimit(static_cast<int>(bytes));
      if (!Add(wire, *field->message_type(), depth + 1)) return false;
      wire->PopLimit(limit);
      return true;
    }
    if (field != nullptr && field->is_packable()) {
      weight_.memory_bytes += kNumberBytes * bytes;
    } else {
      AddPart(kTextBytes + bytes);
    }
    return wire->Skip(static_cast<int>(bytes));
  }

  MessageWeight weight_;
  int64_t parts_ = 0;
};

}  // namespace

absl::StatusOr<MessageWeight> WeighMessage(absl::string_view wire, const Descriptor& type) {
  CodedInputStream stream(reinterpret_cast<const uint8_t*>(wire.data()), static_cast<int>(wire.size()));
  stream.PushLimit(static_cast<int>(wire.size()));
  Scale scale;
  if (scale.Add(&stream, type, 0)) return scale.weight();
  if (scale.parts() > kMostParts) {
    return absl::InvalidArgumentError(absl::StrCat("a message ", type.name(), " of ", wire.size(),
                                                   " bytes has more than ", kMostParts,
                                                   " parts, which is the most that one may have"));
  }
  return absl::InvalidArgumentError(absl::StrCat("what was sent is no message ", type.name()));
}

}  // namespace farandole
