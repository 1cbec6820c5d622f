#ifndef FARANDOLE_SDK_CPP_FARANDOLE_TORCH_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_TORCH_H_

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "farandole/job.h"

// Tensors of libtorch. They lie in the host's memory; those of a GPU are UNIMPLEMENTED here: use Job::UseStream and
// views of their memory.
namespace farandole {
inline namespace sdk {

// INVALID_ARGUMENT: farandole has no such element type.
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

// A view of a tensor, whose memory must outlive it. INVALID_ARGUMENT: it is not defined, not contiguous, or of a type
// that farandole has not. UNIMPLEMENTED: it is not in the host's memory.
inline StatusOr<MutableTensor> ViewOf(const at::Tensor& tensor) {
  if (!tensor.defined()) return Status(StatusCode::kInvalidArgument, "the tensor is not defined");
  if (!tensor.device().is_cpu()) {
    return Status(StatusCode::kUnimplemented, "a tensor on " + tensor.device().str() +
                                                  " is not in the host's memory; use Job::UseStream and a view of its "
                                                  "data_ptr()");
  }
  if (!tensor.is_contiguous()) {
    return Status(StatusCode::kInvalidArgument, "the tensor is not contiguous: give tensor.contiguous()");
  }
  const StatusOr<DType> dtype = DTypeOf(tensor.scalar_type());
  if (!dtype.ok()) return dtype.status();
  const Shape shape(tensor.sizes().data(), tensor.sizes().size());
  return MutableTensor(tensor.data_ptr(), shape, *dtype);
}

// ---- Operations: as those of Job; inputs may have any strides, and results are new tensors ----

inline Status AllreduceInPlace(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  const StatusOr<MutableTensor> view = ViewOf(tensor);
  return view.ok() ? job.AllreduceInPlace(*view, call) : view.status();
}
inline Future AllreduceInPlaceAsync(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  const StatusOr<MutableTensor> view = ViewOf(tensor);
  return view.ok() ? job.AllreduceInPlaceAsync(*view, call) : Future(Submission(view.status()));
}
inline StatusOr<at::Tensor> Allreduce(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  at::Tensor output = tensor.detach().clone(at::MemoryFormat::Contiguous);
  if (Status status = AllreduceInPlace(job, output, call); !status.ok()) return status;
  return output;
}

inline Status GroupedAllreduceInPlace(Job& job, const std::vector<at::Tensor>& tensors, const Call& call = {}) {
  std::vector<MutableTensor> views;
  for (const at::Tensor& tensor : tensors) {
    const StatusOr<MutableTensor> view = ViewOf(tensor);
    if (!view.ok()) return view.status();
    views.push_back(*view);
  }
  return job.GroupedAllreduceInPlace(views, call);
}

inline Status BroadcastInPlace(Job& job, const at::Tensor& tensor, int root, const Call& call = {}) {
  const StatusOr<MutableTensor> view = ViewOf(tensor);
  return view.ok() ? job.BroadcastInPlace(*view, root, call) : view.status();
}

// The rows of a result, copied into a tensor like `like`.
inline at::Tensor TensorOf(const Gathered& gathered, const at::Tensor& like) {
  const Shape& shape = gathered.shape();
  at::Tensor output = at::empty(at::IntArrayRef(shape.begin(), static_cast<size_t>(shape.ndim())), like.options());
  std::memcpy(output.data_ptr(), gathered.data(), static_cast<size_t>(gathered.bytes()));
  return output;
}

inline StatusOr<at::Tensor> Allgather(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  const at::Tensor source = tensor.detach().contiguous();
  const StatusOr<MutableTensor> view = ViewOf(source);
  if (!view.ok()) return view.status();
  const StatusOr<Gathered> gathered = job.Allgather(AsConst(*view), call);
  if (!gathered.ok()) return gathered.status();
  return TensorOf(*gathered, source);
}

// The rows, and how many each rank has given.
struct ExchangedTensor {
  at::Tensor tensor;
  std::vector<int64_t> rows;
};
inline StatusOr<ExchangedTensor> Alltoall(Job& job, const at::Tensor& tensor, const std::vector<int64_t>& splits = {},
                                          const Call& call = {}) {
  const at::Tensor source = tensor.detach().contiguous();
  const StatusOr<MutableTensor> view = ViewOf(source);
  if (!view.ok()) return view.status();
  const StatusOr<Gathered> gathered = job.Alltoall(AsConst(*view), splits, call);
  if (!gathered.ok()) return gathered.status();
  return ExchangedTensor{TensorOf(*gathered, source), gathered->rows()};
}

inline StatusOr<at::Tensor> Reducescatter(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  const at::Tensor source = tensor.detach().contiguous();
  const StatusOr<MutableTensor> view = ViewOf(source);
  if (!view.ok()) return view.status();
  if (source.dim() == 0) return Status(StatusCode::kInvalidArgument, "a scalar has no rows to share out");
  std::vector<int64_t> shape = source.sizes().vec();
  shape[0] = job.RowsOfShare(shape[0], call);
  at::Tensor output = at::empty(shape, source.options());
  if (Status status = job.Reducescatter(AsConst(*view), *ViewOf(output), call); !status.ok()) return status;
  return output;
}

// ---- Training ----

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// The parameters of a module, or its buffers: NamedTensorsOf(model->named_parameters()).
template <typename Dictionary>
NamedTensors NamedTensorsOf(const Dictionary& dictionary) {
  NamedTensors named;
  for (const auto& item : dictionary) named.emplace_back(item.key(), item.value());
  return named;
}

// Gives the tensors of rank `root` to all: parameters and buffers, before the first step.
inline Status BroadcastParameters(Job& job, const NamedTensors& tensors, int root = 0) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    at::Tensor whole = tensor.detach().contiguous();
    const std::string own = "farandole.broadcast." + name;
    if (Status status = BroadcastInPlace(job, whole, root, own); !status.ok()) return status;
    if (!tensor.is_contiguous()) tensor.detach().copy_(whole);
  }
  return Status();
}

// Averages gradients over all ranks while the backward pass computes further ones: each is on its way as soon as it is
// made. Before the optimizer's step, Synchronize() waits for all of them.
//
//   GradientReducer reducer(&job, NamedTensorsOf(model->named_parameters()));
//   loss.backward();
//   ExitOnError(reducer.Synchronize());
//   optimizer.step();
//
// A backward pass goes before each Synchronize(). A parameter that it has given no gradient on this rank counts as
// zero. Declare it after the job; the parameters' graph holds its hooks, which do nothing once it is gone.
class GradientReducer {
 public:
  GradientReducer(Job* job, const NamedTensors& parameters, ReduceOp op = ReduceOp::kAverage)
      : state_(std::make_shared<Gradients>()) {
    state_->job = job;
    state_->op = op;
    for (const auto& [name, parameter] : parameters) {
      if (parameter.requires_grad()) state_->slots.push_back({"gradient." + name, parameter, nullptr, {}});
    }
    for (size_t i = 0; i < state_->slots.size(); ++i) {
      Slot& slot = state_->slots[i];
      slot.accumulator = torch::autograd::impl::grad_accumulator(slot.parameter);
      slot.accumulator->add_post_hook(std::make_unique<Hook>(state_, i));
    }
  }
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;
  ~GradientReducer() {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->slots.clear();
  }

  // Waits until all gradients are the average. The first error of any: a shape that ranks disagree about, an epoch that
  // has ended, or INVALID_ARGUMENT: a gradient was made twice since the last call.
  Status Synchronize() {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    for (Slot& slot : state_->slots) {
      if (slot.future.has_value()) continue;
      if (!slot.parameter.grad().defined()) slot.parameter.mutable_grad() = at::zeros_like(slot.parameter);
      state_->Submit(&slot);
    }
    Status first = std::exchange(state_->error, Status());
    for (Slot& slot : state_->slots) {
      Status status = slot.future->Wait();
      slot.future.reset();
      if (first.ok() && !status.ok()) first = std::move(status);
    }
    return first;
  }

 private:
  struct Slot {
    std::string name;
    at::Tensor parameter;
    // Shared with the parameter's graph, which keeps it weakly. Its pointer's type depends on libtorch's version.
    decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>())) accumulator;
    std::optional<Future> future;
  };
  // Shared with the hooks, which libtorch may keep longer.
  struct Gradients {
    std::mutex mutex;
    Job* job = nullptr;
    ReduceOp op = ReduceOp::kAverage;
    std::vector<Slot> slots;
    Status error;

    void Submit(Slot* slot) {
      at::Tensor& gradient = slot->parameter.mutable_grad();
      if (!gradient.is_contiguous()) gradient = gradient.contiguous();
      slot->future.emplace(AllreduceInPlaceAsync(*job, gradient, Call(slot->name).With(op)));
    }
  };
  class Hook : public torch::autograd::FunctionPostHook {
   public:
    Hook(std::shared_ptr<Gradients> gradients, size_t index) : gradients_(std::move(gradients)), index_(index) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list&) override {
      const std::lock_guard<std::mutex> lock(gradients_->mutex);
      if (index_ >= gradients_->slots.size()) return outputs;
      Slot& slot = gradients_->slots[index_];
      if (slot.future.has_value()) {
        gradients_->error = Status(StatusCode::kInvalidArgument,
                                   slot.name + " was made twice: call Synchronize() after each backward()");
        static_cast<void>(slot.future->Wait());
      }
      gradients_->Submit(&slot);
      return outputs;
    }

   private:
    std::shared_ptr<Gradients> gradients_;
    size_t index_;
  };

  std::shared_ptr<Gradients> state_;
};

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_TORCH_H_
