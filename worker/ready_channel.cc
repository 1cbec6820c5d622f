#include "worker/ready_channel.h"

#include <cstring>

namespace farandole {

Placement Post::placement() const {
  Placement placement;
  if (is_inline == 0 && payload_bytes == sizeof(placement)) std::memcpy(&placement, payload, sizeof(placement));
  return placement;
}

void Post::set_placement(const Placement& placement) {
  if (placement.arena == 0) return;
  std::memcpy(payload, &placement, sizeof(placement));
  payload_bytes = sizeof(placement);
}

int64_t Post::rows() const {
  int64_t rows = 0;
  if (is_inline == 0 && payload_bytes == sizeof(rows)) std::memcpy(&rows, payload, sizeof(rows));
  return rows;
}

void Post::set_rows(int64_t rows) {
  std::memcpy(payload, &rows, sizeof(rows));
  payload_bytes = sizeof(rows);
}

}  // namespace farandole
