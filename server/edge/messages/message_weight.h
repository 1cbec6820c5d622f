#ifndef FARANDOLE_SERVER_EDGE_MESSAGES_MESSAGE_WEIGHT_H_
#define FARANDOLE_SERVER_EDGE_MESSAGES_MESSAGE_WEIGHT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace farandole {

// The most messages, texts and unknown fields that one message may have in it. A hello with 65,536 names has
// fewer.
inline constexpr int64_t kMostParts = 1 << 20;

// The cost of reading a message, found from its bytes before it is read. gRPC takes messages of 16 MiB; one with
// two bytes for each of its parts becomes 8 million objects in 1.2 GiB of memory, and takes 8 s of a thread.
struct MessageWeight {
  // About as many as the message takes in memory when it is read.
  int64_t memory_bytes = 0;
  // It has fields that are not known here, as one of a later version may.
  bool has_unknown = false;
};

// The weight of the message of this type whose bytes are `wire`. Takes the time to look at each field, and no memory.
// INVALID_ARGUMENT: it is no such message, or has more than kMostParts.
absl::StatusOr<MessageWeight> WeighMessage(absl::string_view wire, const google::protobuf::Descriptor& type);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_MESSAGES_MESSAGE_WEIGHT_H_
