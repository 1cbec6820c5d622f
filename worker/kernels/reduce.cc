#include "worker/kernels/reduce.h"

#include "base/check.h"
#include "worker/kernels/float_environment.h"
#include "worker/kernels/kernel_table.h"

namespace farandole {
namespace {

CombineKind KindOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return kMinimum;
    case ReduceOp::kMax:
      return kMaximum;
    case ReduceOp::kProduct:
      return kMultiply;
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
    case ReduceOp::kAdasum:
      break;
  }
  return kAdd;
}

void Run(DType dtype, ReduceOp op, const ReduceCall& call) {
  FD_CHECK(op != ReduceOp::kAdasum) << "adasum is no element-wise reduction";
  FD_CHECK(op != ReduceOp::kAverage || dtype != DType::kBool) << "bool has no average";
  FD_CHECK_GE(call.count, 0);
  const FloatEnvironment environment;
  ChosenKernels().reduce[static_cast<int>(dtype)][KindOf(op)](call);
}

int64_t Divisor(ReduceOp op, int average_over) {
  if (op != ReduceOp::kAverage) return 0;
  FD_CHECK_GT(average_over, 0);
  return average_over;
}

}  // namespace

void Reduce(DType dtype, ReduceOp op, absl::Span<const void* const> inputs, const double* scales_or_null, void* output,
            int64_t count, double postscale, int average_over) {
  FD_CHECK(!inputs.empty()) << "nothing to reduce";
  Run(dtype, op,
      {inputs.data(), static_cast<int64_t>(inputs.size()), scales_or_null, output, count, Divisor(op, average_over),
       postscale});
}

void Accumulate(DType dtype, ReduceOp op, void* target, const void* source, int64_t count) {
  const void* const inputs[] = {target, source};
  const ReduceOp sum_or_op = op == ReduceOp::kAverage ? ReduceOp::kSum : op;
  Run(dtype, sum_or_op, {inputs, 2, nullptr, target, count, 0, 1.0});
}

void Finish(DType dtype, ReduceOp op, void* buffer, int64_t count, double postscale, int average_over) {
  const int64_t divisor = Divisor(op, average_over);
  if (divisor == 0 && postscale == 1.0) return;
  const void* const inputs[] = {buffer};
  Run(dtype, op, {inputs, 1, nullptr, buffer, count, divisor, postscale});
}

}  // namespace farandole
