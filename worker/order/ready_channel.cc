#include "worker/order/ready_channel.h"

#include <cstring>

namespace farandole {

Placement PlacementIn(const PostHeader& header, const char* payload) {
  Placement placement;
  if (header.is_inline == 0 && header.payload_bytes == sizeof(placement)) {
    std::memcpy(&placement, payload, sizeof(placement));
  }
  return placement;
}

int64_t RowsIn(const PostHeader& header, const char* payload) {
  int64_t rows = 0;
  if (header.is_inline == 0 && header.payload_bytes == sizeof(rows)) std::memcpy(&rows, payload, sizeof(rows));
  return rows;
}

void Post::set_placement(const Placement& placement) {
  if (placement.arena == 0) return;
  std::memcpy(payload, &placement, sizeof(placement));
  payload_bytes = sizeof(placement);
}

void Post::set_rows(int64_t rows) {
  std::memcpy(payload, &rows, sizeof(rows));
  payload_bytes = sizeof(rows);
}

}  // namespace farandole
