#include "worker/collectives/buffer_pool.h"

#include <new>
#include <utility>

namespace farandole {
namespace {

constexpr std::align_val_t kCacheLine{64};
// Smaller buffers than a page are not worth telling apart.
constexpr size_t kLeastCapacity = 4096;

// A power of two, so that batches of about one size find each other's buffers.
size_t CapacityFor(size_t bytes) {
  size_t capacity = kLeastCapacity;
  while (capacity < bytes) capacity *= 2;
  return capacity;
}

}  // namespace

void BufferPool::Freed::operator()(char* bytes) const { ::operator delete(bytes, kCacheLine); }

BufferPool::Lease::Lease(BufferPool* pool, Block block) : pool_(pool), block_(std::move(block)) {}

BufferPool::Lease::Lease(Lease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), block_(std::move(other.block_)) {}

BufferPool::Lease& BufferPool::Lease::operator=(Lease&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(block_, other.block_);
  return *this;
}

BufferPool::Lease::~Lease() {
  if (pool_ != nullptr) pool_->Return(std::move(block_));
}

BufferPool::Lease BufferPool::Take(size_t bytes) {
  if (bytes == 0) return Lease();
  const size_t capacity = CapacityFor(bytes);
  // From the newest on: its bytes are the likeliest to be in a cache.
  for (size_t i = kept_.size(); i-- > 0;) {
    if (kept_[i].capacity != capacity) continue;
    Block found = std::move(kept_[i]);
    kept_.erase(kept_.begin() + static_cast<ptrdiff_t>(i));
    kept_bytes_ -= capacity;
    return Lease(this, std::move(found));
  }
  Block block;
  block.bytes.reset(static_cast<char*>(::operator new(capacity, kCacheLine)));
  block.capacity = capacity;
  return Lease(this, std::move(block));
}

void BufferPool::Return(Block block) {
  if (block.capacity > most_kept_bytes_) return;
  kept_bytes_ += block.capacity;
  kept_.push_back(std::move(block));
  size_t dropped = 0;
  while (kept_bytes_ > most_kept_bytes_) kept_bytes_ -= kept_[dropped++].capacity;
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<ptrdiff_t>(dropped));
}

}  // namespace farandole
