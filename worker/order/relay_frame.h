#ifndef FARANDOLE_WORKER_ORDER_RELAY_FRAME_H_
#define FARANDOLE_WORKER_ORDER_RELAY_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/order/ready_channel.h"

namespace farandole {

// A message between leaders of hosts about readiness and order. As bytes, each frame is its length (4 bytes,
// little-endian, as all numbers), its kind (1 byte) and its fields: a post's as they lie on a host's page, an entry's
// as in entry_bytes.h.
struct RelayFrame {
  enum class Kind : uint8_t {
    // Towards rank 0: `rank` states `post`.
    kPost = 1,
    // From rank 0: the next entry of the log. `entry.sequence` is where it lies.
    kEntry = 2,
    // The epoch has ended, by `end`.
    kEnd = 3,
  };

  Kind kind = Kind::kPost;
  int rank = 0;
  Post post;
  Entry entry;
  absl::Status end;
};

// No frame is longer: the largest entry that fits into the log, and its head.
inline constexpr size_t kMostFrameBytes = (312 << 10) + 64;

void AppendPost(int rank, const Post& post, std::string* bytes);
void AppendEntry(const Entry& entry, std::string* bytes);
// `end` is an error; its sentence is cut where it is too long.
void AppendEnd(const absl::Status& end, std::string* bytes);

// Takes the frame at the front of `bytes`, which another host has sent, in an epoch of `size` ranks, and returns its
// length; 0: the frame is not complete yet.
//   INVALID_ARGUMENT: these bytes are no frame, or one with values that no rank sends
absl::StatusOr<size_t> TakeFrame(absl::string_view bytes, int size, RelayFrame* frame);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ORDER_RELAY_FRAME_H_
