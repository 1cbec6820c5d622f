#ifndef FARANDOLE_SDK_CPP_FARANDOLE_TORCH_OPS_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_TORCH_OPS_H_

#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "farandole/job.h"

/// @file
/// Tensors of libtorch. They lie in the host's memory; those of a GPU are UNIMPLEMENTED here: use Job::UseStream and
/// views of their memory.
namespace farandole {
inline namespace sdk {

/// INVALID_ARGUMENT: farandole has no such element type.
inline StatusOr<DType> DTypeOf(at::ScalarType type) {
  switch (type) {
    case at::kByte:
      return DType::kU8;
    case at::kChar:
      return DType::kI8;
    case at::kShort:
      return DType::kI16;
    case at::kInt:
      return DType::kI32;
    case at::kLong:
      return DType::kI64;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kFloat:
      return DType::kF32;
    case at::kDouble:
      return DType::kF64;
    case at::kBool:
      return DType::kBool;
    case at::kUInt16:
      return DType::kU16;
    case at::kFloat8_e4m3fn:
      return DType::kF8E4M3;
    case at::kFloat8_e5m2:
      return DType::kF8E5M2;
    default:
      return Status(StatusCode::kInvalidArgument,
                    std::string("a tensor of ") + c10::toString(type) + " cannot be sent: farandole has no such type");
  }
}

/// OK, or INVALID_ARGUMENT: the tensor is not defined, sparse or quantized.
inline Status CheckIsPlain(const at::Tensor& tensor) {
  if (!tensor.defined()) return Status(StatusCode::kInvalidArgument, "the tensor is not defined");
  if (tensor.layout() == at::kStrided && !tensor.is_quantized()) return Status();
  return Status(StatusCode::kInvalidArgument, std::string("a tensor of ") + c10::toString(tensor.scalar_type()) +
                                                  " that is " + (tensor.is_quantized() ? "quantized" : "sparse") +
                                                  " cannot be sent: give a dense one");
}

/// A view of a tensor, whose memory must outlive it. INVALID_ARGUMENT: it is not defined, not dense, not contiguous,
/// has torch's negative bit, or is of a type that farandole has not. UNIMPLEMENTED: it is not in the host's memory.
inline StatusOr<MutableTensor> ViewOf(const at::Tensor& tensor) {
  if (Status plain = CheckIsPlain(tensor); !plain.ok()) return plain;
  if (!tensor.device().is_cpu()) {
    return Status(StatusCode::kUnimplemented, "a tensor on " + tensor.device().str() +
                                                  " is not in the host's memory; use Job::UseStream and a view of its "
                                                  "data_ptr()");
  }
  if (!tensor.is_contiguous()) {
    return Status(StatusCode::kInvalidArgument, "the tensor is not contiguous: give tensor.contiguous()");
  }
  if (tensor.is_neg()) {
    return Status(StatusCode::kInvalidArgument,
                  "the tensor is the negative of its memory (torch's negative bit): give tensor.resolve_neg()");
  }
  const StatusOr<DType> dtype = DTypeOf(tensor.scalar_type());
  if (!dtype.ok()) return dtype.status();
  const Shape shape(tensor.sizes().data(), tensor.sizes().size());
  return MutableTensor(tensor.data_ptr(), shape, *dtype);
}

/// The tensor as it lies in memory when it is sent: contiguous, without torch's negative bit. A copy where it is not.
inline StatusOr<at::Tensor> SourceOf(const at::Tensor& tensor) {
  if (Status plain = CheckIsPlain(tensor); !plain.ok()) return plain;
  return tensor.detach().resolve_neg().contiguous();
}

/// As ViewOf, of several tensors.
inline StatusOr<std::vector<MutableTensor>> ViewsOf(const std::vector<at::Tensor>& tensors) {
  std::vector<MutableTensor> views;
  for (const at::Tensor& tensor : tensors) {
    const StatusOr<MutableTensor> view = ViewOf(tensor);
    if (!view.ok()) return view.status();
    views.push_back(*view);
  }
  return views;
}

/// The rows of a result, copied into a tensor like `like`.
inline at::Tensor TensorOf(const Gathered& gathered, const at::Tensor& like) {
  const Shape& shape = gathered.shape();
  at::Tensor output = at::empty(at::IntArrayRef(shape.begin(), static_cast<size_t>(shape.ndim())), like.options());
  std::memcpy(output.data_ptr(), gathered.data(), static_cast<size_t>(gathered.bytes()));
  return output;
}

/// The rows of a result, and how many each rank has given.
struct ExchangedTensor {
  at::Tensor tensor;
  std::vector<int64_t> rows;
};

// ---- What follows an operation. Each holds the tensor that the library reads, so that it lives until then ----

/// The output that the library has written.
struct TakeOutput {
  at::Tensor source;
  at::Tensor output;
  StatusOr<at::Tensor> operator()(const Status& status) const {
    if (!status.ok()) return status;
    return output;
  }
};
/// The rows that have come, and whose they are.
struct TakeExchanged {
  at::Tensor source;
  StatusOr<ExchangedTensor> operator()(const StatusOr<Gathered>& gathered) const {
    if (!gathered.ok()) return gathered.status();
    return ExchangedTensor{TensorOf(*gathered, source), gathered->rows()};
  }
};
/// The rows that have come.
struct TakeRows {
  at::Tensor source;
  StatusOr<at::Tensor> operator()(const StatusOr<Gathered>& gathered) const {
    if (!gathered.ok()) return gathered.status();
    return TensorOf(*gathered, source);
  }
};

/// Operations on their way; Wait() gives the result. The tensors that were given need not live longer than the call.
using OutputFuture = Continued<Future, TakeOutput>;
using ExchangeFuture = Continued<GatherFuture, TakeExchanged>;
using RowsFuture = Continued<GatherFuture, TakeRows>;

/// The result of `Take` for the rows that an operation on the tensor's memory gives. `operation`:
/// StatusOr<Gathered>(ConstTensor).
template <typename Take, typename Operation>
std::invoke_result_t<Take, StatusOr<Gathered>> ExchangeNow(const at::Tensor& tensor, const Operation& operation) {
  const StatusOr<at::Tensor> source = SourceOf(tensor);
  if (!source.ok()) return source.status();
  const StatusOr<MutableTensor> view = ViewOf(*source);
  if (!view.ok()) return view.status();
  return Take{*source}(operation(AsConst(*view)));
}
/// As ExchangeNow, later. `operation`: GatherFuture(ConstTensor).
template <typename Take, typename Operation>
Continued<GatherFuture, Take> ExchangeLater(const at::Tensor& tensor, const Operation& operation) {
  const StatusOr<at::Tensor> source = SourceOf(tensor);
  if (!source.ok()) return GatherFuture(Submission(source.status())).Then(Take{});
  const StatusOr<MutableTensor> view = ViewOf(*source);
  if (!view.ok()) return GatherFuture(Submission(view.status())).Then(Take{});
  return operation(AsConst(*view)).Then(Take{*source});
}

// ---- Operations: as those of Job. A call in place needs a contiguous tensor, whose memory lives until the operation
// is complete; the inputs of the others may have any strides, and their results are new tensors ----

inline Status AllreduceInPlace(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  const StatusOr<MutableTensor> view = ViewOf(tensor);
  return view.ok() ? job.AllreduceInPlace(*view, call) : view.status();
}
inline Future AllreduceInPlaceAsync(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  const StatusOr<MutableTensor> view = ViewOf(tensor);
  return view.ok() ? job.AllreduceInPlaceAsync(*view, call) : Future(Submission(view.status()));
}
inline StatusOr<at::Tensor> Allreduce(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  if (Status plain = CheckIsPlain(tensor); !plain.ok()) return plain;
  at::Tensor output = tensor.detach().resolve_neg().clone(at::MemoryFormat::Contiguous);
  if (Status status = AllreduceInPlace(job, output, call); !status.ok()) return status;
  return output;
}
inline OutputFuture AllreduceAsync(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  if (Status plain = CheckIsPlain(tensor); !plain.ok()) return Future(Submission(plain)).Then(TakeOutput{});
  const at::Tensor output = tensor.detach().resolve_neg().clone(at::MemoryFormat::Contiguous);
  return AllreduceInPlaceAsync(job, output, call).Then(TakeOutput{output, output});
}

inline Status GroupedAllreduceInPlace(Job& job, const std::vector<at::Tensor>& tensors, const Call& call = {}) {
  const StatusOr<std::vector<MutableTensor>> views = ViewsOf(tensors);
  return views.ok() ? job.GroupedAllreduceInPlace(*views, call) : views.status();
}
inline Future GroupedAllreduceInPlaceAsync(Job& job, const std::vector<at::Tensor>& tensors, const Call& call = {}) {
  const StatusOr<std::vector<MutableTensor>> views = ViewsOf(tensors);
  return views.ok() ? job.GroupedAllreduceInPlaceAsync(*views, call) : Future(Submission(views.status()));
}

inline Status BroadcastInPlace(Job& job, const at::Tensor& tensor, int root, const Call& call = {}) {
  const StatusOr<MutableTensor> view = ViewOf(tensor);
  return view.ok() ? job.BroadcastInPlace(*view, root, call) : view.status();
}
inline Future BroadcastInPlaceAsync(Job& job, const at::Tensor& tensor, int root, const Call& call = {}) {
  const StatusOr<MutableTensor> view = ViewOf(tensor);
  return view.ok() ? job.BroadcastInPlaceAsync(*view, root, call) : Future(Submission(view.status()));
}

inline StatusOr<at::Tensor> Allgather(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  return ExchangeNow<TakeRows>(tensor, [&](const ConstTensor& input) { return job.Allgather(input, call); });
}
inline RowsFuture AllgatherAsync(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  return ExchangeLater<TakeRows>(tensor, [&](const ConstTensor& input) { return job.AllgatherAsync(input, call); });
}

/// On rank `root` the rows of all ranks; elsewhere a tensor without rows.
inline StatusOr<at::Tensor> Gather(Job& job, const at::Tensor& tensor, int root, const Call& call = {}) {
  return ExchangeNow<TakeRows>(tensor, [&](const ConstTensor& input) { return job.Gather(input, root, call); });
}
inline RowsFuture GatherAsync(Job& job, const at::Tensor& tensor, int root, const Call& call = {}) {
  return ExchangeLater<TakeRows>(tensor, [&](const ConstTensor& input) { return job.GatherAsync(input, root, call); });
}

/// This rank's share of the rows of rank `root`; the other ranks' rows do not matter.
inline StatusOr<at::Tensor> Scatter(Job& job, const at::Tensor& tensor, int root, const Call& call = {}) {
  return ExchangeNow<TakeRows>(tensor, [&](const ConstTensor& input) { return job.Scatter(input, root, call); });
}
inline RowsFuture ScatterAsync(Job& job, const at::Tensor& tensor, int root, const Call& call = {}) {
  return ExchangeLater<TakeRows>(tensor, [&](const ConstTensor& input) { return job.ScatterAsync(input, root, call); });
}

inline StatusOr<ExchangedTensor> Alltoall(Job& job, const at::Tensor& tensor, const std::vector<int64_t>& splits = {},
                                          const Call& call = {}) {
  return ExchangeNow<TakeExchanged>(tensor,
                                    [&](const ConstTensor& input) { return job.Alltoall(input, splits, call); });
}
inline ExchangeFuture AlltoallAsync(Job& job, const at::Tensor& tensor, const std::vector<int64_t>& splits = {},
                                    const Call& call = {}) {
  return ExchangeLater<TakeExchanged>(tensor,
                                      [&](const ConstTensor& input) { return job.AlltoallAsync(input, splits, call); });
}

/// The input of a Reducescatter as it is sent, and a tensor for this rank's share of its rows.
inline StatusOr<TakeOutput> ShareOf(const Job& job, const at::Tensor& tensor, const Call& call) {
  const StatusOr<at::Tensor> source = SourceOf(tensor);
  if (!source.ok()) return source.status();
  if (const StatusOr<MutableTensor> view = ViewOf(*source); !view.ok()) return view.status();
  if (source->dim() == 0) return Status(StatusCode::kInvalidArgument, "a scalar has no rows to share out");
  std::vector<int64_t> shape = source->sizes().vec();
  shape[0] = job.RowsOfShare(shape[0], call);
  return TakeOutput{*source, at::empty(shape, source->options())};
}
inline StatusOr<at::Tensor> Reducescatter(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  const StatusOr<TakeOutput> take = ShareOf(job, tensor, call);
  if (!take.ok()) return take.status();
  return (*take)(job.Reducescatter(AsConst(*ViewOf(take->source)), *ViewOf(take->output), call));
}
inline OutputFuture ReducescatterAsync(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  const StatusOr<TakeOutput> take = ShareOf(job, tensor, call);
  if (!take.ok()) return Future(Submission(take.status())).Then(TakeOutput{});
  return job.ReducescatterAsync(AsConst(*ViewOf(take->source)), *ViewOf(take->output), call).Then(*take);
}

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_TORCH_OPS_H_
