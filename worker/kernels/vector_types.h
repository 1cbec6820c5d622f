#ifndef FARANDOLE_WORKER_KERNELS_VECTOR_TYPES_H_
#define FARANDOLE_WORKER_KERNELS_VECTOR_TYPES_H_

// Vectors of lanes, and half precision in terms of them.
//
// For the reduce_<level>.cc files only. They are compiled with different
// instruction sets, so everything here has internal linkage: with an ordinary
// inline function the linker would keep one copy, perhaps the AVX-512 one, for
// all of them. For the same reason nothing here calls a function of the
// standard library.

#include <cstdint>

namespace farandole {
namespace {

template <typename Lane, int kBytes>
struct VectorOf {
  typedef Lane Type __attribute__((vector_size(kBytes)));
};

// The types of a level whose registers hold kBytes. Half and Bytes hold as many
// values of 16 and 8 bits as Floats has lanes.
template <int kBytes>
struct VectorTypes {
  using Floats = typename VectorOf<float, kBytes>::Type;
  using Words = typename VectorOf<uint32_t, kBytes>::Type;
  using Half = typename VectorOf<uint16_t, kBytes / 2>::Type;
  using Bytes = typename VectorOf<uint8_t, kBytes / 4>::Type;
};

// The upper half of each lane, rounded to nearest even, as a number of 16 bits.
// Expects canonical NaNs: others could round to infinity.
template <typename Words, typename Floats>
Words RoundedToBF16(Floats floats) {
  const Words bits = (Words)floats;
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

// Conversions in integer arithmetic, for processors without instructions for
// them. Every form gives the same bits as F16C and rounds to nearest even; narrowing expects canonical NaNs.
template <int kBytes>
struct PortableHalf {
  using Floats = typename VectorTypes<kBytes>::Floats;
  using Words = typename VectorTypes<kBytes>::Words;
  using Half = typename VectorTypes<kBytes>::Half;
  using Bytes = typename VectorTypes<kBytes>::Bytes;

  static Half WidenBytes(Bytes bytes) { return __builtin_convertvector(bytes, Half); }
  static Bytes NarrowBytes(Words words) { return __builtin_convertvector(words, Bytes); }

  static Floats WidenBF16(Half half) { return (Floats)(__builtin_convertvector(half, Words) << 16); }

  static Half NarrowBF16(Floats floats) { return __builtin_convertvector(RoundedToBF16<Words>(floats), Half); }

  // After F. Giesen, "half to float done quick" (public domain): the exponent
  // is rebased by an integer addition, and a subnormal is made normal by the
  // floating-point unit.
  static Floats WidenF16(Half half) {
    const Words word = __builtin_convertvector(half, Words);
    const Words shifted = (word & 0x7fff) << 13;
    const Words exponent = shifted & (0x7c00u << 13);
    const Words normal = shifted + ((127u - 15) << 23);
    const Words infinite = normal + ((128u - 16) << 23);
    const Words magic = Words{} + (113u << 23);
    const Words subnormal = (Words)((Floats)(normal + (1u << 23)) - (Floats)magic);
    Words result = exponent == (0x7c00u << 13) ? infinite : normal;
    result = exponent == 0 ? subnormal : result;
    return (Floats)(result | ((word & 0x8000) << 16));
  }

  static Half NarrowF16(Floats floats) {
    const Words sign = (Words)floats & 0x80000000u;
    const Words magnitude = (Words)floats ^ sign;
    const Words rebased = magnitude - ((127u - 15) << 23) + 0xfff + ((magnitude >> 13) & 1);
    // Adding 0.5 leaves the subnormal's bits, rounded, at the lower end.
    const Words magic = Words{} + (126u << 23);
    const Words subnormal = (Words)((Floats)magnitude + (Floats)magic) - magic;
    const Words infinity = Words{} + 0x7c00;
    const Words nan = Words{} + 0x7e00;
    Words result = magnitude < (113u << 23) ? subnormal : rebased >> 13;
    result = magnitude >= (143u << 23) ? infinity : result;
    result = magnitude > (255u << 23) ? nan : result;
    return __builtin_convertvector(result | (sign >> 16), Half);
  }
};

}  // namespace
}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_VECTOR_TYPES_H_
