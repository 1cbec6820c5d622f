#include <emmintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "worker/kernels/stream_copy.h"

namespace farandole {
namespace {

constexpr size_t kLine = 64;

}  // namespace

void StreamCopy(void* target, const void* source, size_t bytes) {
  char* to = static_cast<char*>(target);
  const char* from = static_cast<const char*>(source);
  // Whole lines only: a part of one would be read from memory first.
  const size_t head = std::min(bytes, (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, from, head);
  size_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    const auto* line = reinterpret_cast<const __m128i*>(from + at);
    auto* out = reinterpret_cast<__m128i*>(to + at);
    const __m128i first = _mm_loadu_si128(line);
    const __m128i second = _mm_loadu_si128(line + 1);
    const __m128i third = _mm_loadu_si128(line + 2);
    const __m128i fourth = _mm_loadu_si128(line + 3);
    _mm_stream_si128(out, first);
    _mm_stream_si128(out + 1, second);
    _mm_stream_si128(out + 2, third);
    _mm_stream_si128(out + 3, fourth);
  }
  std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence();
}

}  // namespace farandole
