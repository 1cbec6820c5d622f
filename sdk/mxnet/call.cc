#include "sdk/mxnet/call.h"

#include <algorithm>
#include <set>
#include <string>

namespace farandole::mxnet {
namespace {

// MXNet's number of an element type (mshadow), ours, and its bytes.
struct ElementType {
  int mxnet;
  int32_t farandole;
  int64_t bytes;
};
constexpr ElementType kElementTypes[] = {
    {0, FARANDOLE_F32, 4}, {1, FARANDOLE_F64, 8}, {2, FARANDOLE_F16, 2},   {3, FARANDOLE_U8, 1},
    {4, FARANDOLE_I32, 4}, {5, FARANDOLE_I8, 1},  {6, FARANDOLE_I64, 8},   {7, FARANDOLE_BOOL, 1},
    {8, FARANDOLE_I16, 2}, {9, FARANDOLE_U16, 2}, {12, FARANDOLE_BF16, 2},
};

const ElementType* ElementTypeOf(int dtype) {
  const auto* const end = std::end(kElementTypes);
  const auto* const found =
      std::find_if(std::begin(kElementTypes), end, [dtype](const ElementType& type) { return type.mxnet == dtype; });
  return found == end ? nullptr : found;
}

}  // namespace

bool Call::Check(int code) { return code == 0 || Fail(FARANDOLE_INTERNAL, Mxnet().MXGetLastError()); }

bool Call::TakeArray(NDArrayHandle input, NDArrayHandle output) {
  Arrays& arrays = arrays_.emplace_back();
  Tensor& tensor = tensors_.emplace_back();
  int dtype = 0, ndim = 0;
  const int* shape = nullptr;
  if (!Check(Mxnet().MXNDArrayGetDType(input, &dtype))) return false;
  const ElementType* const type = ElementTypeOf(dtype);
  if (type == nullptr) {
    return Fail(FARANDOLE_INVALID_ARGUMENT, terms_.name + ": an array of MXNet's element type " +
                                                std::to_string(dtype) +
                                                " cannot be sent: farandole has no such element type");
  }
  tensor.dtype = type->farandole;
  if (!Check(Mxnet().MXNDArrayGetShapeEx(input, &ndim, &shape))) return false;
  tensor.shape.assign(shape, shape + std::max(ndim, 0));
  if (!Check(Mxnet().MXNDArrayGetShapeEx(output, &ndim, &shape))) return false;
  arrays.output_bytes = type->bytes;
  for (int dim = 0; dim < ndim; ++dim) arrays.output_bytes *= shape[dim];
  arrays.is_in_place = input == output;
  NDArrayHandle copy = nullptr;
  if (!Check(Mxnet().MXShallowCopyNDArray(output, &copy))) return false;
  arrays.output.reset(copy);
  if (arrays.is_in_place) return true;
  if (!Check(Mxnet().MXShallowCopyNDArray(input, &copy))) return false;
  arrays.input.reset(copy);
  return true;
}

bool Call::Take(NDArrayHandle const* inputs, NDArrayHandle const* outputs, int count) {
  if (terms_.op == Op::kBarrier || terms_.op == Op::kJoin) tensors_.resize(1);
  for (int i = 0; i < count; ++i) {
    if (!TakeArray(inputs[i], outputs[i])) return false;
  }
  return true;
}

void Call::ListArrays(std::vector<NDArrayHandle>* read, std::vector<NDArrayHandle>* written) const {
  std::set<const void*> memories;
  for (const Arrays& arrays : arrays_) {
    if (memories.insert(MemoryOf(arrays.output.get())).second) written->push_back(arrays.output.get());
  }
  for (const Arrays& arrays : arrays_) {
    const NDArrayHandle input = arrays.input.get();
    if (input != nullptr && memories.insert(MemoryOf(input)).second) read->push_back(input);
  }
}

bool Call::FindMemory(size_t index) {
  Arrays& arrays = arrays_[index];
  Tensor& tensor = tensors_[index];
  BringIntoRowMajorOrder(arrays.output.get());
  if (!Check(Mxnet().MXNDArrayGetData(arrays.output.get(), &tensor.output))) return false;
  tensor.input = tensor.output;
  if (arrays.is_in_place) return true;
  arrays.readable = InRowMajorOrder(arrays.input.get());
  void* data = nullptr;
  if (!Check(Mxnet().MXNDArrayGetData(arrays.readable.get(), &data))) return false;
  tensor.input = data;
  return true;
}

bool Call::Begin(const OnComplete& on_complete) {
  on_complete_ = on_complete;
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (!FindMemory(i)) return false;
  }
  return true;
}

bool Call::DeliverResults() {
  if (!Settle()) return false;
  if (!adapter::AllocatesResult(terms_.op)) return true;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    int64_t bytes = 0;
    std::vector<int64_t> rows;
    if (!ReadResult(tensors_[i], &bytes, &rows)) return false;
    if (bytes != arrays_[i].output_bytes) {
      return Fail(FARANDOLE_INVALID_ARGUMENT, terms_.name + ": the ranks' rows make " + std::to_string(bytes) +
                                                  " bytes, and the ranks had announced " +
                                                  std::to_string(arrays_[i].output_bytes));
    }
    if (!CopyResult(tensors_[i], bytes, tensors_[i].output)) return false;
  }
  return true;
}

void Call::Deliver() {
  const bool is_ok = DeliverResults();
  // The operation's completion lets others have the memory.
  Release();
  if (is_ok) {
    on_complete_(nullptr);
    return;
  }
  // farandole/mxnet/_engine.py has MXNet's waits raise the exception of the code.
  const std::runtime_error error("farandole." + std::to_string(code()) + ": " + message());
  on_complete_(&error);
}

}  // namespace farandole::mxnet
