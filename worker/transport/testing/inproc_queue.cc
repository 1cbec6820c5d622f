#include "worker/transport/testing/inproc_queue.h"

#include <algorithm>
#include <cstring>

namespace farandole {

size_t InprocQueue::Write(const void* bytes, size_t count) {
  count = std::min(count, room());
  if (count == 0) return 0;
  const uint64_t written = written_.load();
  const size_t at = written % kCapacity;
  const size_t first = std::min(count, kCapacity - at);
  const char* source = static_cast<const char*>(bytes);
  std::memcpy(bytes_.get() + at, source, first);
  std::memcpy(bytes_.get(), source + first, count - first);
  written_.store(written + count);
  return count;
}

size_t InprocQueue::Read(void* bytes, size_t count) {
  count = std::min(count, available());
  if (count == 0) return 0;
  const uint64_t read = read_.load();
  const size_t at = read % kCapacity;
  const size_t first = std::min(count, kCapacity - at);
  char* target = static_cast<char*>(bytes);
  std::memcpy(target, bytes_.get() + at, first);
  std::memcpy(target + first, bytes_.get(), count - first);
  read_.store(read + count);
  return count;
}

}  // namespace farandole
