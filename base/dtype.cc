#include "base/dtype.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

constexpr absl::string_view kReduceOps[kReduceOpCount] = {
    "average", "sum", "adasum", "min", "max", "product",
};

}  // namespace

absl::string_view Name(DType dtype) {
  const int value = static_cast<int>(dtype);
  return value < kDTypeCount ? kDTypeTraits[value].name : "unknown";
}

absl::string_view Name(ReduceOp op) {
  const int value = static_cast<int>(op);
  return value < kReduceOpCount ? kReduceOps[value] : "unknown";
}

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
