#include "worker/transport/shm/arena.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"

namespace farandole {
namespace {

size_t RegionBytes(size_t bytes) {
  // 4 KiB, except for some kernels of 64-bit ARM.
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) & ~(page - 1);
}

}  // namespace

Arena::Arena(uint64_t number, std::shared_ptr<EpochMemory> memory, std::vector<int> ranks, int rank, size_t bytes)
    : number_(number), memory_(std::move(memory)), ranks_(std::move(ranks)), bytes_(bytes), data_(region(rank)) {}

size_t Arena::Bytes(size_t ranks, size_t bytes) { return ranks * RegionBytes(bytes); }

size_t Arena::RegionOffset(size_t position, size_t bytes) { return position * RegionBytes(bytes); }

char* Arena::region(int rank) const {
  const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  FD_CHECK(found != ranks_.end() && *found == rank) << "rank " << rank << " has no region in arena " << number_;
  return memory_->data() + RegionOffset(static_cast<size_t>(found - ranks_.begin()), bytes_);
}

bool Arena::Contains(const void* at, size_t bytes) const {
  const char* first = static_cast<const char*>(at);
  // std::less orders pointers that belong to different objects.
  if (std::less<const char*>()(first, data_) || !std::less<const char*>()(first, data_ + bytes_)) return false;
  return bytes <= static_cast<size_t>(data_ + bytes_ - first);
}

}  // namespace farandole
