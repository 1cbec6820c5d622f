#include "worker/engine/glance.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace farandole {
namespace {

// More bytes take longer than the wake-up that is saved.
constexpr int64_t kMostBytes = 64 << 10;
constexpr int kMostSkips = 63;

int64_t InputBytes(const Request& request) {
  int64_t elements = 0;
  for (const TensorView& tensor : request.tensors) {
    elements += std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
  }
  return elements * SizeOf(request.dtype);
}

bool IsShort(const Request& request) {
  // Of other ops the other ranks may have more than this one, and the caller would carry it.
  if (request.op != OpType::kAllreduce && request.op != OpType::kBroadcast) return false;
  return request.gpu == nullptr && InputBytes(request) <= kMostBytes;
}

}  // namespace

bool Glance::IsWanted(const Request& request) {
  if (!IsShort(request)) return false;
  const int left = left_.load(std::memory_order_relaxed);
  if (left == 0) return true;
  left_.store(left - 1, std::memory_order_relaxed);
  return false;
}

void Glance::Note(bool was_complete) {
  const int skips = was_complete ? 0 : std::min(2 * skips_.load(std::memory_order_relaxed) + 1, kMostSkips);
  skips_.store(skips, std::memory_order_relaxed);
  left_.store(skips, std::memory_order_relaxed);
}

}  // namespace farandole
