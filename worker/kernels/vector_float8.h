#ifndef FARANDOLE_WORKER_KERNELS_VECTOR_FLOAT8_H_
#define FARANDOLE_WORKER_KERNELS_VECTOR_FLOAT8_H_

// Floats of 8 bits in terms of float lanes. For the reduce_<level>.cc files
// only: see vector_types.h on linkage.

#include <cstdint>

#include "worker/kernels/vector_types.h"

namespace farandole {
namespace {

// How each format lies in 7 bits: the exponent, then kFractionBits. A result
// beyond kLargest becomes that, and a NaN 0x7f.
template <typename Level>
struct E4M3Format {
  using Floats = typename VectorTypes<Level::kBytes>::Floats;
  using Words = typename VectorTypes<Level::kBytes>::Words;
  using Half = typename VectorTypes<Level::kBytes>::Half;
  static constexpr int kFractionBits = 3;
  static constexpr uint32_t kBias = 7;
  static constexpr uint32_t kLargest = 0x7e;  // 448

  // The bits of a float16 are those of a number 2^8 times as small.
  static Floats Widen(Half code) {
    const Floats floats = Level::WidenF16(((code & 0x80) << 8) | ((code & 0x7f) << 7)) * 256.0f;
    const Words nan = Words{} + 0x7fc00000u;
    constexpr uint32_t k480 = 0x43f00000;  // what 0x7f would be
    return ((Words)floats & 0x7fffffff) == k480 ? (Floats)nan : floats;
  }
};

template <typename Level>
struct E5M2Format {
  using Floats = typename VectorTypes<Level::kBytes>::Floats;
  using Half = typename VectorTypes<Level::kBytes>::Half;
  static constexpr int kFractionBits = 2;
  static constexpr uint32_t kBias = 15;
  static constexpr uint32_t kLargest = 0x7c;  // infinity

  // The upper half of a float16.
  static Floats Widen(Half code) { return Level::WidenF16(code << 8); }
};

// Rounds to nearest even.
template <typename Format, typename Words, typename Floats>
Words NarrowedFloat8(Floats floats) {
  constexpr int kShift = 23 - Format::kFractionBits;
  constexpr uint32_t kRebase = (127 - Format::kBias) << 23;
  const Words sign = (Words)floats & 0x80000000u;
  const Words magnitude = (Words)floats ^ sign;
  const Words normal = (magnitude - kRebase + ((1u << (kShift - 1)) - 1) + ((magnitude >> kShift) & 1)) >> kShift;
  // Beside this number a float's last digit is the least subnormal, so adding it leaves the subnormal's bits, rounded,
  // at the lower end.
  const Words magic = Words{} + (kRebase + (static_cast<uint32_t>(kShift + 1) << 23));
  const Words subnormal = (Words)((Floats)magnitude + (Floats)magic) - magic;
  const Words largest = Words{} + Format::kLargest;
  const Words nan = Words{} + 0x7f;
  Words result = normal > Format::kLargest ? largest : normal;
  result = magnitude < kRebase + (1u << 23) ? subnormal : result;
  result = magnitude > (255u << 23) ? nan : result;
  return result | (sign >> 24);
}

}  // namespace
}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_VECTOR_FLOAT8_H_
