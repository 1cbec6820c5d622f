#include "worker/device/nccl/nccl_reduction.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/device/nccl/nccl_communicator.h"
#include "worker/device/nccl_library.h"

namespace farandole {
namespace {

// From which on NCCL reduces floats of 8 bits.
constexpr NcclPlace kFloat8 = {22400, 90};

// Whether the type has a number near the factor: NCCL multiplies in it.
bool IsNormal(DType dtype, double factor) {
  const double size = std::abs(factor);
  if (dtype == DType::kF64) return std::isnormal(factor);
  if (dtype == DType::kF16) return size >= 6.2e-5 && size <= 65504;
  return size >= 1.2e-38 && size <= 3.38e38;
}

absl::Status NotOnGpus(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is not possible on GPUs; copy the tensor to the host's memory"));
}

bool IsFloat8(DType dtype) { return IsFloating(dtype) && SizeOf(dtype) == 1; }

int OpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return kNcclMin;
    case ReduceOp::kMax:
      return kNcclMax;
    case ReduceOp::kProduct:
      return kNcclProd;
    case ReduceOp::kAverage:
      return kNcclAvg;
    case ReduceOp::kSum:
    case ReduceOp::kAdasum:
      return kNcclSum;
  }
  return kNcclSum;
}

}  // namespace

absl::StatusOr<NcclReduction> PlanNcclReduction(DType dtype, ReduceOp op, double prescale, double postscale, int size) {
  if (NcclTypeOf(dtype) < 0) return NotOnGpus(absl::StrCat("a reduction of ", Name(dtype)));
  if (op == ReduceOp::kAdasum) return NotOnGpus("Adasum");
  if (dtype == DType::kBool) {
    // As bytes that are 0 or 1, and that a factor of 0 clears.
    const bool is_or = op == ReduceOp::kSum || op == ReduceOp::kMax;
    return NcclReduction{is_or ? kNcclMax : kNcclMin, 1.0, prescale == 0.0 ? 0.0 : 1.0, postscale == 0.0 ? 0.0 : 1.0};
  }
  // A factor, and the average's 1 / size, would have the few digits of the tensor's type, and be 0 soon.
  if (IsFloat8(dtype) && (op == ReduceOp::kAverage || prescale != 1.0 || postscale != 1.0))
    return NotOnGpus(absl::StrCat("an average or a scale factor of ", Name(dtype)));
  const bool adds = op == ReduceOp::kSum || op == ReduceOp::kAverage;
  const bool is_scaled = prescale != 1.0 || postscale != 1.0;
  if (is_scaled && adds && IsFloating(dtype)) {
    // Sums are linear: one factor does for all, and needs no pass over the memory. Else the kernel that follows
    // divides, too, since NCCL's average multiplies each input by 1 / size first, in the type itself.
    const double share = op == ReduceOp::kAverage ? 1.0 / size : 1.0;
    const double factor = prescale * postscale * share;
    if (IsNormal(dtype, factor)) return NcclReduction{kNcclSum, factor};
    return NcclReduction{kNcclSum, 1.0, prescale, postscale * share};
  }
  return NcclReduction{OpOf(op), 1.0, prescale, postscale};
}

absl::Status CheckNcclType(DType dtype, const NcclPlace& place) {
  if (!IsFloat8(dtype)) return absl::OkStatus();
  if (place.nccl_version >= kFloat8.nccl_version && place.gpu_capability >= kFloat8.gpu_capability)
    return absl::OkStatus();
  const auto words = [](const NcclPlace& of) {
    return absl::StrCat("NCCL ", NcclVersionName(of.nccl_version), " and compute capability ", of.gpu_capability / 10,
                        ".", of.gpu_capability % 10);
  };
  return absl::InvalidArgumentError(absl::StrCat("GPUs reduce ", Name(dtype), " from ", words(kFloat8),
                                                 " on, and this worker has ", words(place),
                                                 "; copy the tensor to the host's memory"));
}

absl::Status CheckForNccl(absl::string_view name, OpType op, DType dtype, ReduceOp reduce_op, double prescale,
                          double postscale, const NcclPlace& place) {
  if (!Reduces(op)) return absl::OkStatus();
  absl::Status planned = PlanNcclReduction(dtype, reduce_op, prescale, postscale, 1).status();
  if (planned.ok()) planned = CheckNcclType(dtype, place);
  if (planned.ok()) return planned;
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", planned.message()));
}

absl::Status PrepareForNccl(absl::string_view name, Gpu& gpu, OpType op, DType dtype, ReduceOp reduce_op,
                            double prescale, double postscale, int size) {
  if (!Reduces(op)) return absl::OkStatus();
  const absl::StatusOr<NcclReduction> plan = PlanNcclReduction(dtype, reduce_op, prescale, postscale, size);
  if (!plan.ok() || !plan->ScalesByKernel()) return absl::OkStatus();
  const absl::Status loaded = gpu.LoadKernels();
  if (loaded.ok()) return loaded;
  return NotOnGpus(absl::StrCat(name, ": ", Name(reduce_op), " of ", Name(dtype), " with the factors ", prescale,
                                " and ", postscale, " wants kernels that GPU ", gpu.ordinal(), " cannot run (",
                                loaded.message(), "), so it"));
}

}  // namespace farandole
