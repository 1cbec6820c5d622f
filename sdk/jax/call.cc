#include "sdk/jax/call.h"

#include <map>
#include <numeric>
#include <utility>

namespace farandole::jax {
namespace {

// Waits surface so often, as those of Python do.
constexpr int64_t kSurfaceMs = 100;

// XLA's number of an element type, ours, and its bytes.
struct ElementType {
  int xla;
  int32_t farandole;
  int64_t bytes;
};
constexpr ElementType kElementTypes[] = {
    {1, FARANDOLE_BOOL, 1},    {2, FARANDOLE_I8, 1},   {3, FARANDOLE_I16, 2},   {4, FARANDOLE_I32, 4},
    {5, FARANDOLE_I64, 8},     {6, FARANDOLE_U8, 1},   {7, FARANDOLE_U16, 2},   {10, FARANDOLE_F16, 2},
    {11, FARANDOLE_F32, 4},    {12, FARANDOLE_F64, 8}, {16, FARANDOLE_BF16, 2}, {19, FARANDOLE_F8E5M2, 1},
    {20, FARANDOLE_F8E4M3, 1},
};

const ElementType* ElementTypeOf(int dtype) {
  for (const ElementType& type : kElementTypes) {
    if (type.xla == dtype) return &type;
  }
  return nullptr;
}

int64_t BytesOf(int32_t dtype) {
  for (const ElementType& type : kElementTypes) {
    if (type.farandole == dtype) return type.bytes;
  }
  return 0;
}

int64_t CountOf(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, [](int64_t a, int64_t b) { return a * b; });
}

std::string ListOf(const std::vector<int64_t>& numbers) {
  std::string list = "[";
  for (const int64_t number : numbers) list += (list.size() > 1 ? "," : "") + std::to_string(number);
  return list + "]";
}

int32_t DimsOf(const std::vector<int64_t>& shape) { return static_cast<int32_t>(shape.size()); }

}  // namespace

Call::Call(const FfiApi* api, Op op, std::string name) : api_(api) {
  attributes_.op = op;
  attributes_.name = std::move(name);
}

Call::~Call() {
  for (const Item& item : items_) {
    if (item.handle != 0) Worker().release(item.handle);
  }
}

bool Call::Fail(int code, const std::string& message) {
  if (code_ == 0) {
    code_ = code;
    message_ = message;
  }
  return false;
}

void Call::TakeAttributes(const FfiAttributes& attributes) {
  attributes_.reduce_op = static_cast<int32_t>(NumberAttribute(attributes, "reduce_op"));
  attributes_.prescale = DoubleAttribute(attributes, "prescale");
  attributes_.postscale = DoubleAttribute(attributes, "postscale");
  attributes_.root = static_cast<int32_t>(NumberAttribute(attributes, "root"));
  attributes_.group = static_cast<int32_t>(NumberAttribute(attributes, "group"));
}

bool Call::TakeItem(const FfiCallFrame* frame, int64_t index, Item* item) {
  const auto* given = static_cast<const FfiBuffer*>(frame->arguments.buffers[index]);
  const auto* made = static_cast<const FfiBuffer*>(frame->results.buffers[index]);
  const ElementType* const type = ElementTypeOf(given->dtype);
  if (type == nullptr) {
    return Fail(FARANDOLE_INVALID_ARGUMENT, attributes_.name + ": an array of XLA's element type " +
                                                std::to_string(given->dtype) +
                                                " cannot be sent: farandole has no such element type");
  }
  item->dtype = type->farandole;
  item->input = given->data;
  item->output = made->data;
  item->shape.assign(given->dims, given->dims + given->rank);
  item->output_shape.assign(made->dims, made->dims + made->rank);
  return true;
}

bool Call::Prepare(const FfiCallFrame* frame) {
  if (!HasWorkerLibrary()) {
    return Fail(FARANDOLE_FAILED_PRECONDITION, "farandole's calls run where farandole.jax is imported");
  }
  TakeAttributes(frame->attributes);
  // The last result is for the call that is to run next, and has no meaning; so has the argument of the one before.
  items_.resize(static_cast<size_t>(frame->results.size - 1));
  for (size_t i = 0; i < items_.size(); ++i) {
    if (!TakeItem(frame, static_cast<int64_t>(i), &items_[i])) return false;
  }
  return true;
}

std::vector<std::vector<size_t>> Call::Parts() const {
  std::map<std::pair<size_t, int32_t>, std::vector<size_t>> parts;
  const bool is_fused = attributes_.op == Op::kAllreduce && attributes_.reduce_op != FARANDOLE_ADASUM;
  for (size_t i = 0; i < items_.size(); ++i) parts[{is_fused ? 0 : i, is_fused ? items_[i].dtype : 0}].push_back(i);
  std::vector<std::vector<size_t>> lists;
  for (auto& part : parts) lists.push_back(std::move(part.second));
  return lists;
}

farandole_handle Call::SubmitReduction(const std::vector<size_t>& indices, const std::string& name,
                                       const farandole_part* part, int64_t wait_ms) {
  const Attributes& terms = attributes_;
  const Item& first = items_[indices[0]];
  if (indices.size() == 1 && part == nullptr) {
    return Worker().allreduce(name.c_str(), first.input, first.output, first.shape.data(), DimsOf(first.shape),
                              first.dtype, terms.reduce_op, terms.prescale, terms.postscale, terms.group, wait_ms);
  }
  std::vector<farandole_tensor> tensors;
  for (const size_t index : indices) {
    const Item& item = items_[index];
    tensors.push_back({item.input, item.output, item.shape.data(), DimsOf(item.shape)});
  }
  return Worker().grouped_allreduce(name.c_str(), tensors.data(), static_cast<int32_t>(tensors.size()), first.dtype,
                                    terms.reduce_op, terms.prescale, terms.postscale, terms.group, wait_ms, part);
}

void Call::StateGroup() {
  members_.clear();
  for (const Item& item : items_) {
    members_.push_back({item.shape.data(), DimsOf(item.shape), item.dtype, is_on_gpu_});
  }
  part_ = {members_.data(), static_cast<int32_t>(members_.size()), 0};
}

farandole_handle Call::SubmitPart(const std::vector<size_t>& indices, const std::string& name,
                                  const farandole_part* part, int64_t wait_ms) {
  const Attributes& terms = attributes_;
  const Item& item = items_[indices[0]];
  const int64_t* const shape = item.shape.data();
  const int32_t ndim = DimsOf(item.shape);
  switch (terms.op) {
    case Op::kAllreduce:
      return SubmitReduction(indices, name, part, wait_ms);
    case Op::kAllgather:
      return Worker().allgather(name.c_str(), item.input, shape, ndim, item.dtype, terms.group, wait_ms, part);
    case Op::kBroadcast:
      return Worker().broadcast(name.c_str(), item.input, item.output, shape, ndim, item.dtype, terms.root, terms.group,
                                wait_ms);
    case Op::kReducescatter:
      return Worker().reducescatter(name.c_str(), item.input, item.output, shape, ndim, item.dtype, terms.reduce_op,
                                    terms.prescale, terms.postscale, terms.group, wait_ms, part);
    case Op::kAlltoall:
      return Worker().alltoall(name.c_str(), item.input, shape, ndim, item.dtype, nullptr, 0, terms.group, wait_ms);
    case Op::kGather:
      return Worker().gather(name.c_str(), item.input, shape, ndim, item.dtype, terms.root, terms.group, wait_ms);
    case Op::kScatter:
      return Worker().scatter(name.c_str(), item.input, shape, ndim, item.dtype, terms.root, terms.group, wait_ms);
  }
  return -FARANDOLE_INTERNAL;
}

bool Call::Submit(int64_t wait_ms) {
  const std::vector<std::vector<size_t>> parts = Parts();
  if (parts.size() > 1) StateGroup();
  for (size_t number = 0; number < parts.size(); ++number) {
    // Of those that are parts of a call, the first has the call's own name, as in Python.
    const std::string name = number == 0 ? attributes_.name : attributes_.name + "." + std::to_string(number);
    const farandole_handle handle =
        SubmitPart(parts[number], name, members_.empty() ? nullptr : &part_, number + 1 == parts.size() ? wait_ms : 0);
    if (handle < 0) {
      Fail(static_cast<int>(-handle), Worker().last_error());
      // Earlier submissions of this call have borrowed its memory.
      return number > 0;
    }
    items_[parts[number][0]].handle = handle;
    if (number == 0) part_.first = handle;
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

bool Call::CheckRows(const Item& item, const std::vector<int64_t>& rows) {
  if (attributes_.op == Op::kScatter || item.output_shape.empty()) return true;
  const int64_t total = item.output_shape[0], size = static_cast<int64_t>(rows.size());
  std::vector<int64_t> wanted;
  for (int64_t i = 0; i < size; ++i) wanted.push_back(total / size + (i < total % size ? 1 : 0));
  if (rows == wanted || (attributes_.op == Op::kGather && total == 0)) return true;
  return Fail(FARANDOLE_INVALID_ARGUMENT, attributes_.name + ": the ranks gave " + ListOf(rows) +
                                              " rows, and this program was compiled for " + ListOf(wanted) +
                                              "; call it outside of jit, where ranks may give different numbers");
}

bool Call::TakeResult(const Item& item) {
  const int size = Worker().group_size(attributes_.group);
  if (size < 0) return Fail(FARANDOLE_FAILED_PRECONDITION, Worker().last_error());
  void* data = nullptr;
  int64_t bytes = 0;
  std::vector<int64_t> rows(static_cast<size_t>(size));
  if (int code = Worker().result(item.handle, &data, &bytes, rows.data()); code != 0) {
    return Fail(code, Worker().last_error());
  }
  if (!CheckRows(item, rows)) return false;
  const int64_t wanted = CountOf(item.output_shape) * BytesOf(item.dtype);
  if (bytes != wanted) {
    return Fail(FARANDOLE_INVALID_ARGUMENT, attributes_.name + ": the ranks' rows make " + std::to_string(bytes) +
                                                " bytes, and this program was compiled for " + std::to_string(wanted) +
                                                "; compiled calls need the same shape on all ranks");
  }
  if (bytes == 0) return true;
  const int code = Worker().copy_result(item.handle, item.output);
  return code == 0 || Fail(code, Worker().last_error());
}

FfiError* Call::Finish() {
  for (const Item& item : items_) {
    if (item.handle == 0) continue;
    if (const int code = Worker().wait(item.handle, 0); code != 0) Fail(code, Worker().last_error());
  }
  const Op op = attributes_.op;
  if (op == Op::kAllgather || op == Op::kAlltoall || op == Op::kGather || op == Op::kScatter) {
    for (const Item& item : items_) {
      if (code_ == 0) TakeResult(item);
    }
  }
  for (Item& item : items_) {
    if (item.handle != 0) Worker().release(item.handle);
    item.handle = 0;
  }
  return code_ == 0 ? nullptr : MakeError(api_, code_, message_);
}

FfiFuture* Call::Postpone() {
  FfiFutureCreateArgs arguments = {sizeof(FfiFutureCreateArgs), nullptr, nullptr};
  if (FfiError* const error = api_->future_create(&arguments); error != nullptr) {
    Fail(FARANDOLE_INTERNAL, "XLA gives no future: " + TakeMessage(api_, error));
    return nullptr;
  }
  future_ = arguments.future;
  return future_;
}

void Call::Deliver() {
  FfiError* const error = Finish();
  if (error == nullptr) {
    FfiFutureSetAvailableArgs arguments = {sizeof(FfiFutureSetAvailableArgs), nullptr, future_};
    api_->future_set_available(&arguments);
  } else {
    FfiFutureSetErrorArgs arguments = {sizeof(FfiFutureSetErrorArgs), nullptr, future_, error};
    api_->future_set_error(&arguments);
  }
}

}  // namespace farandole::jax
