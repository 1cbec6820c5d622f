#include "worker/kernels/scale.h"

#include <cstdint>
#include <cstring>

#include "worker/kernels/reduce.h"

namespace farandole {
namespace {

// The bits of an element, for each kind of identity.
struct IdentityBits {
  uint64_t zero;
  uint64_t one;
  uint64_t greatest;
  uint64_t least;
};

// The low bits that are all ones.
constexpr uint64_t Ones(int bits) { return (uint64_t{1} << bits) - 1; }

constexpr IdentityBits IdentityOf(DType dtype) {
  const DTypeTraits& traits = TraitsOf(dtype);
  const int sign = 8 * static_cast<int>(traits.size) - 1;
  switch (traits.kind) {
    case DTypeTraits::Kind::kUnsigned:
      return {0, 1, Ones(sign) << 1 | 1, 0};
    case DTypeTraits::Kind::kSigned:
      return {0, 1, Ones(sign), uint64_t{1} << sign};
    case DTypeTraits::Kind::kFloating: {
      // Infinity, or the largest number: all ones is NaN there.
      const uint64_t greatest =
          traits.has_infinity ? Ones(traits.exponent_bits) << traits.mantissa_bits : Ones(sign) - 1;
      const uint64_t minus = uint64_t{1} << sign;
      return {minus, Ones(traits.exponent_bits - 1) << traits.mantissa_bits, greatest, minus | greatest};
    }
    case DTypeTraits::Kind::kBool:
      break;
  }
  return {0, 1, 1, 0};
}

uint64_t IdentityBitsFor(DType dtype, ReduceOp op) {
  const IdentityBits bits = IdentityOf(dtype);
  switch (op) {
    case ReduceOp::kProduct:
      return bits.one;
    case ReduceOp::kMin:
      return bits.greatest;
    case ReduceOp::kMax:
      return bits.least;
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
    case ReduceOp::kAdasum:
      break;
  }
  return bits.zero;
}

template <typename Bits>
void FillWith(void* target, int64_t count, uint64_t bits) {
  const Bits element = static_cast<Bits>(bits);
  char* to = static_cast<char*>(target);
  for (int64_t i = 0; i < count; ++i, to += sizeof(element)) {
    std::memcpy(to, &element, sizeof(element));
  }
}

}  // namespace

void ScaleCopy(DType dtype, const void* source, void* target, int64_t count, double factor) {
  if (factor != 1.0) {
    Reduce(dtype, ReduceOp::kSum, {&source, 1}, &factor, target, count,
           /*postscale=*/1.0, /*average_over=*/1);
  } else if (source != target && count > 0) {
    std::memcpy(target, source, count * SizeOf(dtype));
  }
}

void FillIdentity(DType dtype, ReduceOp op, void* target, int64_t count) {
  const uint64_t bits = IdentityBitsFor(dtype, op);
  switch (SizeOf(dtype)) {
    case 1:
      return FillWith<uint8_t>(target, count, bits);
    case 2:
      return FillWith<uint16_t>(target, count, bits);
    case 4:
      return FillWith<uint32_t>(target, count, bits);
    default:
      return FillWith<uint64_t>(target, count, bits);
  }
}

}  // namespace farandole
