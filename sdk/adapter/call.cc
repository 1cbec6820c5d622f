#include "sdk/adapter/call.h"

#include <algorithm>
#include <map>
#include <utility>

namespace farandole::adapter {
namespace {

// Waits surface so often, as those of Python do.
constexpr int64_t kSurfaceMs = 100;

int32_t DimsOf(const std::vector<int64_t>& shape) { return static_cast<int32_t>(shape.size()); }

}  // namespace

Call::~Call() { Release(); }

void Call::Release() {
  for (Tensor& tensor : tensors_) {
    if (tensor.handle != 0) Worker().release(std::exchange(tensor.handle, 0));
  }
}

bool Call::Fail(int code, const std::string& message) {
  if (code_ == 0) {
    code_ = code;
    message_ = message;
  }
  return false;
}

std::vector<std::vector<size_t>> Call::Parts() const {
  std::map<std::pair<size_t, int32_t>, std::vector<size_t>> parts;
  const bool is_fused = terms().op == Op::kAllreduce && terms().reduce_op != FARANDOLE_ADASUM;
  for (size_t i = 0; i < tensors_.size(); ++i) parts[{is_fused ? 0 : i, is_fused ? tensors_[i].dtype : 0}].push_back(i);
  std::vector<std::vector<size_t>> lists;
  for (auto& part : parts) lists.push_back(std::move(part.second));
  return lists;
}

void Call::StateGroup() {
  members_.clear();
  for (const Tensor& tensor : tensors_) {
    members_.push_back({tensor.shape.data(), DimsOf(tensor.shape), tensor.dtype, is_on_gpu_});
  }
  part_ = {members_.data(), static_cast<int32_t>(members_.size()), 0};
}

farandole_handle Call::SubmitReduction(const std::vector<size_t>& indices, const std::string& name,
                                       const farandole_part* part, int64_t wait_ms) const {
  const Terms& given = terms();
  const Tensor& first = tensors_[indices[0]];
  if (indices.size() == 1 && part == nullptr) {
    return Worker().allreduce(name.c_str(), first.input, first.output, first.shape.data(), DimsOf(first.shape),
                              first.dtype, given.reduce_op, given.prescale, given.postscale, given.group, wait_ms);
  }
  std::vector<farandole_tensor> tensors;
  for (const size_t index : indices) {
    const Tensor& tensor = tensors_[index];
    tensors.push_back({tensor.input, tensor.output, tensor.shape.data(), DimsOf(tensor.shape)});
  }
  return Worker().grouped_allreduce(name.c_str(), tensors.data(), static_cast<int32_t>(tensors.size()), first.dtype,
                                    given.reduce_op, given.prescale, given.postscale, given.group, wait_ms, part);
}

farandole_handle Call::SubmitPart(const std::vector<size_t>& indices, const std::string& name,
                                  const farandole_part* part, int64_t wait_ms) const {
  const Terms& given = terms();
  const Tensor& tensor = tensors_[indices[0]];
  const int64_t* const shape = tensor.shape.data();
  const int32_t ndim = DimsOf(tensor.shape);
  switch (given.op) {
    case Op::kAllreduce:
      return SubmitReduction(indices, name, part, wait_ms);
    case Op::kAllgather:
      return Worker().allgather(name.c_str(), tensor.input, shape, ndim, tensor.dtype, given.group, wait_ms, part);
    case Op::kBroadcast:
      return Worker().broadcast(name.c_str(), tensor.input, tensor.output, shape, ndim, tensor.dtype, given.root,
                                given.group, wait_ms);
    case Op::kReducescatter:
      return Worker().reducescatter(name.c_str(), tensor.input, tensor.output, shape, ndim, tensor.dtype,
                                    given.reduce_op, given.prescale, given.postscale, given.group, wait_ms, part);
    case Op::kAlltoall:
      return Worker().alltoall(name.c_str(), tensor.input, shape, ndim, tensor.dtype,
                               splits_.empty() ? nullptr : splits_.data(), static_cast<int32_t>(splits_.size()),
                               given.group, wait_ms);
    case Op::kGather:
      return Worker().gather(name.c_str(), tensor.input, shape, ndim, tensor.dtype, given.root, given.group, wait_ms);
    case Op::kScatter:
      return Worker().scatter(name.c_str(), tensor.input, shape, ndim, tensor.dtype, given.root, given.group, wait_ms);
    case Op::kJoin:
      return Worker().join(static_cast<int32_t*>(tensor.output));
    case Op::kBarrier:
      return Worker().barrier(name.c_str(), given.group, wait_ms);
  }
  return -FARANDOLE_INTERNAL;
}

bool Call::Submit(int64_t wait_ms) {
  if (code_ != 0) return false;
  if (AllocatesResult(terms().op)) group_size_ = std::max(Worker().group_size(terms().group), 0);
  const std::vector<std::vector<size_t>> parts = Parts();
  if (parts.size() > 1) StateGroup();
  const std::string& base = terms().name;
  for (size_t number = 0; number < parts.size(); ++number) {
    // Of those that are parts of a call, the first has the call's own name, as in Python.
    const std::string name = number == 0 || base.empty() ? base : base + "." + std::to_string(number);
    const farandole_handle handle =
        SubmitPart(parts[number], name, members_.empty() ? nullptr : &part_, number + 1 == parts.size() ? wait_ms : 0);
    if (handle < 0) {
      Fail(static_cast<int>(-handle), Worker().last_error());
      // Earlier submissions of this call have borrowed its memory.
      return number > 0;
    }
    tensors_[parts[number][0]].handle = handle;
    if (number == 0) part_.first = handle;
  }
  return true;
}

bool Call::IsComplete() const {
  for (const Tensor& tensor : tensors_) {
    if (tensor.handle != 0 && Worker().poll(tensor.handle) == 0) return false;
  }
  return true;
}

void Call::Wait() const {
  for (const Tensor& tensor : tensors_) {
    while (tensor.handle != 0 && Worker().wait(tensor.handle, kSurfaceMs) == FARANDOLE_STILL_PENDING) {
    }
  }
}

bool Call::Settle(int disagreement) {
  for (const Tensor& tensor : tensors_) {
    if (tensor.handle == 0) continue;
    const int code = Worker().wait(tensor.handle, 0);
    if (code != 0) Fail(code == FARANDOLE_INVALID_ARGUMENT ? disagreement : code, Worker().last_error());
  }
  return code_ == 0;
}

bool Call::ReadResult(const Tensor& tensor, int64_t* bytes, std::vector<int64_t>* rows) {
  rows->resize(static_cast<size_t>(group_size_));
  void* data = nullptr;
  const int code = Worker().result(tensor.handle, &data, bytes, rows->data());
  return code == 0 || Fail(code, Worker().last_error());
}

bool Call::CopyResult(const Tensor& tensor, int64_t bytes, void* output) {
  if (bytes == 0) return true;
  const int code = Worker().copy_result(tensor.handle, output);
  return code == 0 || Fail(code, Worker().last_error());
}

}  // namespace farandole::adapter
