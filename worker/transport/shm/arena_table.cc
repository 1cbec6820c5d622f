#include "worker/transport/shm/arena_table.h"

#include <algorithm>

namespace farandole {
namespace {

uint64_t Mix(uint64_t state, uint64_t value) {
  state = (state ^ value) * 0x9e3779b97f4a7c15ULL;
  return state ^ (state >> 32);
}

}  // namespace

void ArenaTable::Add(const std::shared_ptr<const Arena>& arena) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto is_gone = [](const std::weak_ptr<const Arena>& one) { return one.expired(); };
  arenas_.erase(std::remove_if(arenas_.begin(), arenas_.end(), is_gone), arenas_.end());
  arenas_.push_back(arena);
  is_empty_.store(false);
}

std::shared_ptr<const Arena> ArenaTable::Find(uint64_t number) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::weak_ptr<const Arena>& one : arenas_) {
    std::shared_ptr<const Arena> arena = one.lock();
    if (arena != nullptr && arena->number() == number) return arena;
  }
  return nullptr;
}

Placement ArenaTable::PlacementOf(absl::Span<const Fragment> fragments, size_t element_bytes) const {
  if (is_empty_.load() || fragments.empty()) return {};
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::weak_ptr<const Arena>& one : arenas_) {
    const std::shared_ptr<const Arena> arena = one.lock();
    if (arena == nullptr || !arena->Contains(fragments[0].output, 1)) continue;
    Placement placement = {arena->number(), 0};
    for (const Fragment& fragment : fragments) {
      const size_t bytes = static_cast<size_t>(fragment.count) * element_bytes;
      if (fragment.input != fragment.output || !arena->Contains(fragment.output, bytes)) return {};
      const char* first = static_cast<const char*>(fragment.output);
      placement.offsets = Mix(placement.offsets, static_cast<uint64_t>(first - arena->data()) + 1);
    }
    return placement;
  }
  return {};
}

}  // namespace farandole
