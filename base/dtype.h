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
size_t SizeOf(DType dtype);

// NumPy's name of the type ("float32", "bool"; "bfloat16", "float8_e4m3fn" and
// "float8_e5m2" as ml_dtypes has them), or "unknown" where `dtype` is no value of the enum. Static storage.
absl::string_view Name(DType dtype);

// "average", "sum", "adasum", "min", "max" or "product", or "unknown" where `op`
// is no value of the enum. Static storage.
absl::string_view Name(ReduceOp op);

// True for the types whose arithmetic rounds, of 8 to 64 bits.
bool IsFloating(DType dtype);

// Turns a number from outside into the enum.
// Errors: INVALID_ARGUMENT where no value has this number.
absl::StatusOr<DType> DTypeFromInt(int value);
absl::StatusOr<ReduceOp> ReduceOpFromInt(int value);

}  // namespace farandole

#endif  // FARANDOLE_BASE_DTYPE_H_
