#ifndef FARANDOLE_BASE_DTYPE_H_
#define FARANDOLE_BASE_DTYPE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole {

// Element type of a tensor. The numbers cross the C ABI and the wire and never
// change; a new type takes the next free number.
enum class DType : uint8_t {
  kU8 = 0,
  kI8 = 1,
  kI16 = 2,
  kI32 = 3,
  kI64 = 4,
  kF16 = 5,   // IEEE 754 binary16
  kBF16 = 6,  // upper half of a binary32
  kF32 = 7,
  kF64 = 8,
  kBool = 9,  // one byte; zero is false, anything else true, written as 0 or 1
  kU16 = 10,
  kF8E4M3 = 11,  // OCP e4m3fn: NaN is all ones but the sign, no infinities, 448 the greatest
  kF8E5M2 = 12,  // upper half of a binary16
};

// The number of values of DType: every value is in [0, kDTypeCount).
inline constexpr int kDTypeCount = 13;

// Traits of an element type, by which the worker and the bench decide. A new type is one row below.
struct DTypeTraits {
  enum class Kind : uint8_t { kBool, kUnsigned, kSigned, kFloating };

  // NumPy's name, or ml_dtypes'.
  absl::string_view name;
  size_t size;
  Kind kind;
  // kFloating: the bits of exponent and mantissa, below one bit for the sign, and whether it has infinities.
  int exponent_bits = 0;
  int mantissa_bits = 0;
  bool has_infinity = false;
};

// In the order of the enum's numbers.
inline constexpr DTypeTraits kDTypeTraits[kDTypeCount] = {
    {"uint8", 1, DTypeTraits::Kind::kUnsigned},
    {"int8", 1, DTypeTraits::Kind::kSigned},
    {"int16", 2, DTypeTraits::Kind::kSigned},
    {"int32", 4, DTypeTraits::Kind::kSigned},
    {"int64", 8, DTypeTraits::Kind::kSigned},
    {"float16", 2, DTypeTraits::Kind::kFloating, 5, 10, /*has_infinity=*/true},
    {"bfloat16", 2, DTypeTraits::Kind::kFloating, 8, 7, /*has_infinity=*/true},
    {"float32", 4, DTypeTraits::Kind::kFloating, 8, 23, /*has_infinity=*/true},
    {"float64", 8, DTypeTraits::Kind::kFloating, 11, 52, /*has_infinity=*/true},
    {"bool", 1, DTypeTraits::Kind::kBool},
    {"uint16", 2, DTypeTraits::Kind::kUnsigned},
    {"float8_e4m3fn", 1, DTypeTraits::Kind::kFloating, 4, 3, /*has_infinity=*/false},
    {"float8_e5m2", 1, DTypeTraits::Kind::kFloating, 5, 2, /*has_infinity=*/true},
};

// `dtype` must be a value of the enum.
constexpr const DTypeTraits& TraitsOf(DType dtype) { return kDTypeTraits[static_cast<int>(dtype)]; }

// How an allreduce or reducescatter combines the ranks' elements. The numbers
// are Horovod's.
enum class ReduceOp : uint8_t {
  kAverage = 0,
  kSum = 1,
  kAdasum = 2,
  kMin = 3,
  kMax = 4,
  kProduct = 5,
};

// The number of values of ReduceOp: every value is in [0, kReduceOpCount).
inline constexpr int kReduceOpCount = 6;

// Bytes of one element, at least 1. `dtype` must be a value of the enum.
constexpr size_t SizeOf(DType dtype) { return TraitsOf(dtype).size; }

// NumPy's name of the type ("float32", "bool"; "bfloat16", "float8_e4m3fn" and
// "float8_e5m2" as ml_dtypes has them), or "unknown" where `dtype` is no value of the enum. Static storage.
absl::string_view Name(DType dtype);

// "average", "sum", "adasum", "min", "max" or "product", or "unknown" where `op`
// is no value of the enum. Static storage.
absl::string_view Name(ReduceOp op);

// True for the types whose arithmetic rounds, of 8 to 64 bits.
constexpr bool IsFloating(DType dtype) { return TraitsOf(dtype).kind == DTypeTraits::Kind::kFloating; }

// Turns a number from outside into the enum.
// Errors: INVALID_ARGUMENT if no value has this number.
absl::StatusOr<DType> DTypeFromInt(int value);
absl::StatusOr<ReduceOp> ReduceOpFromInt(int value);

}  // namespace farandole

#endif  // FARANDOLE_BASE_DTYPE_H_
