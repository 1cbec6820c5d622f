#include "sdk/tensorflow/call.h"

#include <utility>

namespace farandole::tensorflow {
namespace {

constexpr int kInt32 = 3;
constexpr int kInt64 = 9;
// Waits surface so often, as those of Python do.
constexpr int64_t kSurfaceMs = 100;

// TensorFlow's number of an element type, and ours.
struct ElementType {
  int tensorflow;
  int32_t farandole;
};
constexpr ElementType kElementTypes[] = {
    {1, FARANDOLE_F32},  {2, FARANDOLE_F64},     {3, FARANDOLE_I32},     {4, FARANDOLE_U8},    {5, FARANDOLE_I16},
    {6, FARANDOLE_I8},   {9, FARANDOLE_I64},     {10, FARANDOLE_BOOL},   {14, FARANDOLE_BF16}, {17, FARANDOLE_U16},
    {19, FARANDOLE_F16}, {24, FARANDOLE_F8E5M2}, {25, FARANDOLE_F8E4M3},
};

int32_t ElementTypeOf(int dtype) {
  for (const ElementType& type : kElementTypes) {
    if (type.tensorflow == dtype) return type.farandole;
  }
  return -1;
}

size_t BytesOf(const std::vector<int64_t>& shape, int dtype) {
  size_t bytes = Tf().TF_DataTypeSize(dtype);
  for (const int64_t dim : shape) bytes *= static_cast<size_t>(dim);
  return bytes;
}

std::vector<int64_t> ShapeOf(const TF_Tensor* tensor) {
  std::vector<int64_t> shape;
  for (int dim = 0; dim < Tf().TF_NumDims(tensor); ++dim) shape.push_back(Tf().TF_Dim(tensor, dim));
  return shape;
}

int32_t CountOf(const std::vector<int64_t>& shape) { return static_cast<int32_t>(shape.size()); }

}  // namespace

Call::Call(const Attributes* attributes, TF_OpKernelContext* context, std::function<void()> done)
    : attributes_(*attributes), context_(context), done_(std::move(done)), status_(Tf().TF_NewStatus()) {}

Call::~Call() { Tf().TF_DeleteStatus(status_); }

bool Call::Fail(int code, const std::string& message) {
  if (code_ == 0) {
    code_ = code;
    message_ = message;
  }
  return false;
}

bool Call::TakeInput(int index, Item* item) {
  item->dtype = Tf().TF_InputDatatype(context_, index);
  item->element_type = ElementTypeOf(item->dtype);
  if (item->element_type < 0) {
    return Fail(FARANDOLE_INVALID_ARGUMENT, attributes_.name + ": a tensor of TensorFlow's element type " +
                                                std::to_string(item->dtype) +
                                                " cannot be sent: farandole has no such element type");
  }
  Tf().TF_GetInput(context_, index, &item->input, status_);
  if (Tf().TF_GetCode(status_) != 0) return Fail(Tf().TF_GetCode(status_), Tf().TF_Message(status_));
  item->shape = ShapeOf(item->input);
  return true;
}

bool Call::ForwardOutput(int index, Item* item) {
  // The input's memory becomes the output's if no other call holds it.
  Tf().TF_DeleteTensor(std::exchange(item->input, nullptr));
  int forwarded = -1;
  item->output = Tf().TF_ForwardInputOrAllocateOutput(context_, &index, 1, index, item->shape.data(),
                                                      CountOf(item->shape), &forwarded, status_);
  if (Tf().TF_GetCode(status_) != 0) return Fail(Tf().TF_GetCode(status_), Tf().TF_Message(status_));
  if (forwarded >= 0) return true;
  Tf().TF_GetInput(context_, index, &item->input, status_);
  return true;
}

bool Call::AllocateRows(int index, Item* item) {
  std::vector<int64_t> shape = item->shape;
  if (!shape.empty()) {
    const int position = Worker().group_rank(attributes_.group), size = Worker().group_size(attributes_.group);
    // If the rank is not in the group, or does not know it, the submission reports that.
    shape[0] = position < 0 || size <= 0 ? 0 : shape[0] / size + (position < shape[0] % size ? 1 : 0);
  }
  item->output = Tf().TF_AllocateOutput(context_, index, item->dtype, shape.data(), CountOf(shape),
                                        BytesOf(shape, item->dtype), status_);
  return Tf().TF_GetCode(status_) == 0 || Fail(Tf().TF_GetCode(status_), Tf().TF_Message(status_));
}

bool Call::TakeSplits() {
  TF_Tensor* splits = nullptr;
  Tf().TF_GetInput(context_, 1, &splits, status_);
  if (Tf().TF_GetCode(status_) != 0) return Fail(Tf().TF_GetCode(status_), Tf().TF_Message(status_));
  const auto* numbers = static_cast<const int64_t*>(Tf().TF_TensorData(splits));
  splits_.assign(numbers, numbers + Tf().TF_TensorByteSize(splits) / sizeof(int64_t));
  Tf().TF_DeleteTensor(splits);
  return true;
}

bool Call::Prepare() {
  const Op op = attributes_.op;
  if (!HasWorkerLibrary()) {
    return Fail(FARANDOLE_FAILED_PRECONDITION, "farandole's TensorFlow ops run where farandole.tensorflow is imported");
  }
  if (op == Op::kBarrier) return true;
  if (op == Op::kJoin) {
    items_.emplace_back();
    items_[0].output = Tf().TF_AllocateOutput(context_, 0, kInt32, nullptr, 0, sizeof(int32_t), status_);
    return Tf().TF_GetCode(status_) == 0 || Fail(Tf().TF_GetCode(status_), Tf().TF_Message(status_));
  }
  items_.resize(op == Op::kAlltoall ? 1 : static_cast<size_t>(Tf().TF_NumInputs(context_)));
  for (size_t i = 0; i < items_.size(); ++i) {
    const int index = static_cast<int>(i);
    if (!TakeInput(index, &items_[i])) return false;
    if ((op == Op::kAllreduce || op == Op::kBroadcast) && !ForwardOutput(index, &items_[i])) return false;
    if (op == Op::kReducescatter && !AllocateRows(index, &items_[i])) return false;
  }
  return op != Op::kAlltoall || TakeSplits();
}

farandole_handle Call::SubmitGroup(int64_t wait_ms) {
  std::vector<farandole_tensor> tensors;
  for (const Item& item : items_) {
    void* const output = Tf().TF_TensorData(item.output);
    tensors.push_back({item.input == nullptr ? output : Tf().TF_TensorData(item.input), output, item.shape.data(),
                       CountOf(item.shape)});
  }
  const char* const name = attributes_.name.c_str();
  if (tensors.size() == 1) {
    return Worker().allreduce(name, tensors[0].input, tensors[0].output, tensors[0].shape, tensors[0].ndim,
                              items_[0].element_type, attributes_.reduce_op, attributes_.prescale,
                              attributes_.postscale, attributes_.group, wait_ms);
  }
  return Worker().grouped_allreduce(name, tensors.data(), static_cast<int32_t>(tensors.size()), items_[0].element_type,
                                    attributes_.reduce_op, attributes_.prescale, attributes_.postscale,
                                    attributes_.group, wait_ms, nullptr);
}

void Call::StateGroup() {
  members_.clear();
  for (const Item& item : items_) {
    members_.push_back({item.shape.data(), CountOf(item.shape), item.element_type, /*is_on_gpu=*/0});
  }
  part_ = {members_.data(), static_cast<int32_t>(members_.size()), 0};
}

farandole_handle Call::SubmitOne(size_t index, int64_t wait_ms) {
  const Attributes& terms = attributes_;
  const Item& item = items_[index];
  std::string name = terms.name;
  // Of those that are parts of a call, the first has the call's own name, as in Python.
  const farandole_part* const part = members_.empty() ? nullptr : &part_;
  if (!name.empty() && (part == nullptr ? items_.size() > 1 : index > 0)) name += "." + std::to_string(index);
  void* const output = item.output == nullptr ? nullptr : Tf().TF_TensorData(item.output);
  const void* const input = item.input == nullptr ? output : Tf().TF_TensorData(item.input);
  const int64_t* const shape = item.shape.data();
  const int32_t ndim = CountOf(item.shape);
  switch (terms.op) {
    case Op::kAllgather:
      return Worker().allgather(name.c_str(), input, shape, ndim, item.element_type, terms.group, wait_ms, part);
    case Op::kBroadcast:
      return Worker().broadcast(name.c_str(), input, output, shape, ndim, item.element_type, terms.root, terms.group,
                                wait_ms);
    case Op::kReducescatter:
      return Worker().reducescatter(name.c_str(), input, output, shape, ndim, item.element_type, terms.reduce_op,
                                    terms.prescale, terms.postscale, terms.group, wait_ms, part);
    case Op::kAlltoall:
      return Worker().alltoall(name.c_str(), input, shape, ndim, item.element_type,
                               splits_.empty() ? nullptr : splits_.data(), static_cast<int32_t>(splits_.size()),
                               terms.group, wait_ms);
    case Op::kGather:
      return Worker().gather(name.c_str(), input, shape, ndim, item.element_type, terms.root, terms.group, wait_ms);
    case Op::kScatter:
      return Worker().scatter(name.c_str(), input, shape, ndim, item.element_type, terms.root, terms.group, wait_ms);
    default:
      return Worker().join(static_cast<int32_t*>(output));
  }
}

bool Call::Submit(int64_t wait_ms) {
  const Op op = attributes_.op;
  if (op == Op::kBarrier) items_.emplace_back();
  const size_t submissions = op == Op::kAllreduce ? 1 : items_.size();
  if (submissions > 1 && (op == Op::kAllgather || op == Op::kReducescatter)) StateGroup();
  for (size_t i = 0; i < submissions; ++i) {
    const int64_t wait = i + 1 == submissions ? wait_ms : 0;
    farandole_handle handle = 0;
    if (op == Op::kAllreduce) {
      handle = SubmitGroup(wait);
    } else if (op == Op::kBarrier) {
      handle = Worker().barrier(attributes_.name.c_str(), attributes_.group, wait);
    } else {
      handle = SubmitOne(i, wait);
    }
    if (handle < 0) {
      Fail(static_cast<int>(-handle), Worker().last_error());
      // Earlier submissions of this call have borrowed its memory.
      return i > 0;
    }
    items_[i].handle = handle;
    part_.first = items_[0].handle;
  }
  return true;
}

bool Call::IsComplete() const {
  for (const Item& item : items_) {
    if (item.handle != 0 && Worker().poll(item.handle) == 0) return false;
  }
  return true;
}

void Call::Wait() const {
  for (const Item& item : items_) {
    while (item.handle != 0 && Worker().wait(item.handle, kSurfaceMs) == FARANDOLE_STILL_PENDING) {
    }
  }
}

bool Call::DeliverGathered(size_t index, int64_t* rows) {
  Item& item = items_[index];
  void* data = nullptr;
  int64_t bytes = 0;
  if (int code = Worker().result(item.handle, &data, &bytes, rows); code != 0) return Fail(code, Worker().last_error());
  std::vector<int64_t> shape = item.shape.empty() ? std::vector<int64_t>{0} : item.shape;
  shape[0] = 0;
  for (int position = 0; position < Worker().group_size(attributes_.group); ++position) shape[0] += rows[position];
  item.output = Tf().TF_AllocateOutput(context_, static_cast<int>(index), item.dtype, shape.data(), CountOf(shape),
                                       static_cast<size_t>(bytes), status_);
  if (Tf().TF_GetCode(status_) != 0) return Fail(Tf().TF_GetCode(status_), Tf().TF_Message(status_));
  if (bytes == 0) return true;
  const int code = Worker().copy_result(item.handle, Tf().TF_TensorData(item.output));
  return code == 0 || Fail(code, Worker().last_error());
}

bool Call::DeliverResults() {
  for (const Item& item : items_) {
    if (item.handle == 0) continue;
    // Horovod reports a disagreement between ranks as FailedPrecondition.
    const int code = Worker().wait(item.handle, 0);
    if (code != 0)
      Fail(code == FARANDOLE_INVALID_ARGUMENT ? FARANDOLE_FAILED_PRECONDITION : code, Worker().last_error());
  }
  if (code_ != 0 || !AllocatesResult(attributes_.op)) return code_ == 0;
  const int size = Worker().group_size(attributes_.group);
  if (size < 0) return Fail(FARANDOLE_FAILED_PRECONDITION, Worker().last_error());
  const int64_t dims[] = {static_cast<int64_t>(items_.size()), size};
  std::vector<int64_t> rows(items_.size() * static_cast<size_t>(size));
  for (size_t i = 0; i < items_.size(); ++i) {
    if (!DeliverGathered(i, rows.data() + i * static_cast<size_t>(size))) return false;
  }
  TF_Tensor* const output = Tf().TF_AllocateOutput(context_, static_cast<int>(items_.size()), kInt64, dims, 2,
                                                   rows.size() * sizeof(int64_t), status_);
  if (Tf().TF_GetCode(status_) != 0) return Fail(Tf().TF_GetCode(status_), Tf().TF_Message(status_));
  auto* const numbers = static_cast<int64_t*>(Tf().TF_TensorData(output));
  for (size_t i = 0; i < rows.size(); ++i) numbers[i] = rows[i];
  Tf().TF_DeleteTensor(output);
  return true;
}

void Call::Deliver() {
  if (!DeliverResults()) {
    Tf().TF_SetStatus(status_, code_, message_.c_str());
    Tf().TF_OpKernelContext_Failure(context_, status_);
  }
  for (Item& item : items_) {
    if (item.handle != 0) Worker().release(item.handle);
    if (item.input != nullptr) Tf().TF_DeleteTensor(item.input);
    if (item.output != nullptr) Tf().TF_DeleteTensor(item.output);
  }
  items_.clear();
  done_();
}

}  // namespace farandole::tensorflow
