#include "base/dtype.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

struct DTypeRow {
  absl::string_view name;
  size_t size;
  bool floating;
};

// In the order of the enum's numbers.
constexpr DTypeRow kDTypes[kDTypeCount] = {
    {"uint8", 1, false},      {"int8", 1, false},   {"int16", 2, false},   {"int32", 4, false},
    {"int64", 8, false},      {"float16", 2, true}, {"bfloat16", 2, true}, {"float32", 4, true},
    {"float64", 8, true},     {"bool", 1, false},   {"uint16", 2, false},  {"float8_e4m3fn", 1, true},
    {"float8_e5m2", 1, true},
};

constexpr absl::string_view kReduceOps[kReduceOpCount] = {
    "average", "sum", "adasum", "min", "max", "product",
};

}  // namespace

size_t SizeOf(DType dtype) { return kDTypes[static_cast<int>(dtype)].size; }

absl::string_view Name(DType dtype) {
  const int value = static_cast<int>(dtype);
  return value < kDTypeCount ? kDTypes[value].name : "unknown";
}

absl::string_view Name(ReduceOp op) {
  const int value = static_cast<int>(op);
  return value < kReduceOpCount ? kReduceOps[value] : "unknown";
}

bool IsFloating(DType dtype) { return kDTypes[static_cast<int>(dtype)].floating; }

absl::StatusOr<DType> DTypeFromInt(int value) {
  if (value < 0 || value >= kDTypeCount) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype ", value, " is unknown: the numbers are 0 to ", kDTypeCount - 1));
  }
  return static_cast<DType>(value);
}

absl::StatusOr<ReduceOp> ReduceOpFromInt(int value) {
  if (value < 0 || value >= kReduceOpCount) {
    return absl::InvalidArgumentError(
        absl::StrCat("reduce op ", value, " is unknown: the numbers are 0 to ", kReduceOpCount - 1));
  }
  return static_cast<ReduceOp>(value);
}

}  // namespace farandole
