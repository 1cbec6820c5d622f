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

// ---- Operations: as those of Job. A call in place needs a contiguous tensor; the inputs of the others may have any
// strides, and their results are new tensors ----

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

/// The rows that an operation on the tensor's memory gives. `operation`: StatusOr<Gathered>(ConstTensor).
template <typename Operation>
StatusOr<ExchangedTensor> Exchange(const at::Tensor& tensor, const Operation& operation) {
  const StatusOr<at::Tensor> source = SourceOf(tensor);
  if (!source.ok()) return source.status();
  const StatusOr<MutableTensor> view = ViewOf(*source);
  if (!view.ok()) return view.status();
  const StatusOr<Gathered> gathered = operation(AsConst(*view));
  if (!gathered.ok()) return gathered.status();
  return ExchangedTensor{TensorOf(*gathered, *source), gathered->rows()};
}

/// As Exchange, without the numbers of rows.
template <typename Operation>
StatusOr<at::Tensor> RowsOf(const at::Tensor& tensor, const Operation& operation) {
  const StatusOr<ExchangedTensor> exchanged = Exchange(tensor, operation);
  if (!exchanged.ok()) return exchanged.status();
  return exchanged->tensor;
}

inline StatusOr<at::Tensor> Allgather(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  return RowsOf(tensor, [&](const ConstTensor& input) { return job.Allgather(input, call); });
}

/// On rank `root` the rows of all ranks; elsewhere a tensor without rows.
inline StatusOr<at::Tensor> Gather(Job& job, const at::Tensor& tensor, int root, const Call& call = {}) {
  return RowsOf(tensor, [&](const ConstTensor& input) { return job.Gather(input, root, call); });
}

/// This rank's share of the rows of rank `root`; the other ranks' rows do not matter.
inline StatusOr<at::Tensor> Scatter(Job& job, const at::Tensor& tensor, int root, const Call& call = {}) {
  return RowsOf(tensor, [&](const ConstTensor& input) { return job.Scatter(input, root, call); });
}

inline StatusOr<ExchangedTensor> Alltoall(Job& job, const at::Tensor& tensor, const std::vector<int64_t>& splits = {},
                                          const Call& call = {}) {
  return Exchange(tensor, [&](const ConstTensor& input) { return job.Alltoall(input, splits, call); });
}

inline StatusOr<at::Tensor> Reducescatter(Job& job, const at::Tensor& tensor, const Call& call = {}) {
  const StatusOr<at::Tensor> source = SourceOf(tensor);
  if (!source.ok()) return source.status();
  const StatusOr<MutableTensor> view = ViewOf(*source);
  if (!view.ok()) return view.status();
  if (source->dim() == 0) return Status(StatusCode::kInvalidArgument, "a scalar has no rows to share out");
  std::vector<int64_t> shape = source->sizes().vec();
  shape[0] = job.RowsOfShare(shape[0], call);
  at::Tensor output = at::empty(shape, source->options());
  if (Status status = job.Reducescatter(AsConst(*view), *ViewOf(output), call); !status.ok()) return status;
  return output;
}

// ---- Training ----

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// The parameters of a module, or its buffers: NamedTensorsOf(model->named_parameters()).
template <typename Dictionary>
NamedTensors NamedTensorsOf(const Dictionary& dictionary) {
  NamedTensors named;
  for (const auto& item : dictionary) named.emplace_back(item.key(), item.value());
  return named;
}

/// Gives the tensors of rank `root` to all: parameters and buffers, before the first step.
inline Status BroadcastParameters(Job& job, const NamedTensors& tensors, int root = 0) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    const StatusOr<at::Tensor> whole = SourceOf(tensor);
    if (!whole.ok()) return whole.status();
    const std::string own = "farandole.broadcast." + name;
    if (Status status = BroadcastInPlace(job, *whole, root, own); !status.ok()) return status;
    if (!whole->is_same(tensor) && whole->data_ptr() != tensor.data_ptr()) tensor.detach().copy_(*whole);
  }
  return Status();
}

/// Averages gradients over all ranks while the backward pass computes further ones: each is on its way as soon as it is
/// made. Before the optimizer's step, Synchronize() waits for all of them.
///
///     GradientReducer reducer(&job, NamedTensorsOf(model->named_parameters()));
///     loss.backward();
///     ExitOnError(reducer.Synchronize());
///     optimizer.step();
///
/// A backward pass goes before each Synchronize(). A parameter without a gradient on this rank contributes zeros, even
/// if it is frozen here and trained on another rank. The first Synchronize() of each epoch finds the parameters that no
/// rank trains. Declare it after the job; the parameters' graph holds its hooks, which do nothing once it is gone.
///
/// It serves all epochs of an elastic job. In a new one it drops the step that the former one has left unfinished,
/// whose gradients may be half reduced: clear them before the next backward().
class GradientReducer {
 public:
  GradientReducer(Job* job, const NamedTensors& parameters, ReduceOp op = ReduceOp::kAverage)
      : state_(std::make_shared<Gradients>()) {
    state_->job = job;
    state_->op = op;
    for (const auto& [name, parameter] : parameters)
      state_->slots.push_back({"gradient." + name, parameter, nullptr, {}, {}});
    for (size_t i = 0; i < state_->slots.size(); ++i) {
      Slot& slot = state_->slots[i];
      if (!slot.parameter.requires_grad()) continue;
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

  /// Waits until all gradients are the average. Returns the first error: ranks disagree about a shape; the epoch has
  /// ended; INVALID_ARGUMENT if a gradient was made twice since the last call, or if a parameter that was frozen on all
  /// ranks now requires one.
  Status Synchronize() {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->FollowEpoch();
    if (Status agreed = state_->Agree(); !agreed.ok()) {
      // After other errors the job goes on, and another rank may never send these gradients: a wait might not end.
      if (agreed.code() == StatusCode::kAborted) state_->Drop();
      return agreed;
    }
    Status first = std::exchange(state_->error, Status());
    for (Slot& slot : state_->slots) {
      if (slot.future.has_value()) continue;
      if (!slot.is_trained) {
        if (first.ok() && slot.parameter.requires_grad()) first = WasFrozen(slot);
        continue;
      }
      at::Tensor& gradient = slot.parameter.mutable_grad();
      if (!gradient.defined()) gradient = at::zeros_like(slot.parameter);
      // It may be another parameter's as well.
      if (std::exchange(slot.is_lent, false) && gradient.storage().use_count() > 1) gradient = gradient.clone();
      state_->Submit(&slot);
    }
    for (Slot& slot : state_->slots) {
      if (!slot.future.has_value()) continue;
      Status status = slot.Finish();
      if (first.ok() && !status.ok()) first = std::move(status);
    }
    return first;
  }

 private:
  struct Slot {
    std::string name;
    at::Tensor parameter;
    // The graph holds only a weak reference to it, so this one keeps the hook alive. The pointer's type depends on
    // libtorch's version.
    decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>())) accumulator;
    // The gradient that travels: its memory stays when the program gives the parameter another one meanwhile.
    at::Tensor sent;
    std::optional<Future> future;
    // By any rank, as the ranks have agreed in this epoch.
    bool is_trained = false;
    // Its gradient's memory was used further when it was made; it travels when backward is over.
    bool is_lent = false;

    // Waits for what travels.
    Status Finish() {
      Status status = future->Wait();
      future.reset();
      sent.reset();
      return status;
    }
  };

  static Status WasFrozen(const Slot& slot) {
    return Status(StatusCode::kInvalidArgument,
                  slot.name +
                      " is required now, but no rank trained this parameter when the GradientReducer was made: make a "
                      "new one");
  }

  // Shared with the hooks, which libtorch may keep longer.
  struct Gradients {
    std::mutex mutex;
    Job* job = nullptr;
    ReduceOp op = ReduceOp::kAverage;
    std::vector<Slot> slots;
    Status error;
    bool has_agreed = false;
    // The epoch that all of this is of.
    Life life;
    int64_t rejoins = 0;
    int64_t joins = 0;

    // Drops the state of an earlier epoch, which may have ended between a backward pass and Synchronize(). The library
    // does not know its gradients any more, so that no wait for them lasts.
    void FollowEpoch() {
      // A rank that had no pass before it joined has not agreed.
      if (std::exchange(joins, job->joins()) != job->joins()) has_agreed = false;
      if (life.is_present() && rejoins == job->rejoins()) return;
      Drop();
      has_agreed = false;
      life = job->life();
      rejoins = job->rejoins();
    }
    // Waits for all that travel, with any outcome; the next backward pass begins a step.
    void Drop() {
      for (Slot& slot : slots) {
        if (slot.future.has_value()) static_cast<void>(slot.Finish());
        slot.is_lent = false;
      }
      error = Status();
    }
    // Once in an epoch, whose ranks may be new: which parameters any rank trains.
    Status Agree() {
      if (has_agreed) return Status();
      std::vector<uint8_t> trained;
      for (const Slot& slot : slots)
        trained.push_back(slot.accumulator != nullptr || slot.parameter.requires_grad() ? 1 : 0);
      const MutableTensor flags(trained.data(), Shape{static_cast<int64_t>(trained.size())}, DType::kU8);
      Status status = job->AllreduceInPlace(flags, Call("gradient.parts").With(ReduceOp::kMax));
      if (!status.ok()) return status;
      for (size_t i = 0; i < slots.size(); ++i) slots[i].is_trained = trained[i] != 0;
      has_agreed = true;
      return status;
    }
    void Submit(Slot* slot) {
      at::Tensor& gradient = slot->parameter.mutable_grad();
      if (CheckIsPlain(gradient).ok() && (!gradient.is_contiguous() || gradient.is_neg()))
        gradient = gradient.resolve_neg().contiguous();
      slot->sent = gradient;
      slot->future.emplace(AllreduceInPlaceAsync(*job, gradient, Call(slot->name).With(op)));
    }
  };
  class Hook : public torch::autograd::FunctionPostHook {
   public:
    Hook(std::shared_ptr<Gradients> gradients, size_t index) : gradients_(std::move(gradients)), index_(index) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list& inputs) override {
      const std::lock_guard<std::mutex> lock(gradients_->mutex);
      if (index_ >= gradients_->slots.size()) return outputs;
      gradients_->FollowEpoch();
      Slot& slot = gradients_->slots[index_];
      if (slot.future.has_value() || slot.is_lent) {
        gradients_->error = Status(StatusCode::kInvalidArgument,
                                   slot.name + " was made twice: call Synchronize() after each backward()");
        if (slot.future.has_value()) static_cast<void>(slot.Finish());
      }
      slot.is_lent = IsLent(slot.parameter.grad(), inputs);
      if (!slot.is_lent) gradients_->Submit(&slot);
      return outputs;
    }

   private:
    // Whether autograd, or another gradient, uses the gradient's memory further: behind view(), unsqueeze() or cat(),
    // autograd hands the memory of one to several tensors, and may read it until backward is over. Views are the
    // program's: such a gradient was there before.
    static bool IsLent(const at::Tensor& gradient, const torch::autograd::variable_list& inputs) {
      if (!CheckIsPlain(gradient).ok() || gradient.is_view()) return false;
      size_t users = gradient.storage().use_count() - 1;
      if (!inputs.empty() && inputs[0].defined() && inputs[0].is_alias_of(gradient)) {
        // The input is this hook's, and has the tensor of which it is a view.
        --users;
        if (inputs[0].is_view() && inputs[0]._base().use_count() == 1) --users;
      }
      return users > 0;
    }

    std::shared_ptr<Gradients> gradients_;
    size_t index_;
  };

  std::shared_ptr<Gradients> state_;
};

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_TORCH_H_
