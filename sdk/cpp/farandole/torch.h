#ifndef FARANDOLE_SDK_CPP_FARANDOLE_TORCH_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_TORCH_H_

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "farandole/job.h"
#include "farandole/torch_ops.h"

/// @file
/// Training with libtorch: parameters that begin alike, and gradients that are averaged while the backward pass goes
/// on. farandole/torch_ops.h, which this includes, has the operations.
namespace farandole {
inline namespace sdk {

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
