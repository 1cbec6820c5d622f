#include "worker/kernels/scale.h"

#include <cstring>
#include <limits>

#include "worker/kernels/reduce.h"

namespace farandole {
namespace {

// The bits of an element, for each kind of identity.
struct IdentityBits {
  uint64_t one;
  uint64_t greatest;
  uint64_t least;
};

template <typename Integer>
constexpr IdentityBits IntegerIdentity() {
  return {1, static_cast<uint64_t>(std::numeric_limits<Integer>::max()),
          static_cast<uint64_t>(std::numeric_limits<Integer>::min())};
}

IdentityBits IdentityOf(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return IntegerIdentity<uint8_t>();
    case DType::kI8:
      return IntegerIdentity<int8_t>();
    case DType::kI16:
      return IntegerIdentity<int16_t>();
    case DType::kU16:
      return IntegerIdentity<uint16_t>();
    case DType::kI32:
      return IntegerIdentity<int32_t>();
    case DType::kI64:
      return IntegerIdentity<int64_t>();
    case DType::kF16:
      return {0x3c00, 0x7c00, 0xfc00};
    case DType::kBF16:
      return {0x3f80, 0x7f80, 0xff80};
    case DType::kF8E4M3:
      return {0x38, 0x7e, 0xfe};  // without infinities
    case DType::kF8E5M2:
      return {0x3c, 0x7c, 0xfc};
    case DType::kF32:
      return {0x3f800000, 0x7f800000, 0xff800000};
    case DType::kF64:
      return {0x3ff0000000000000, 0x7ff0000000000000, 0xfff0000000000000};
    case DType::kBool:
      break;
  }
  return {1, 1, 0};
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
  return 0;
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
