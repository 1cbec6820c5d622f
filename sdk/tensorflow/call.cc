#include "sdk/tensorflow/call.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

namespace farandole::tensorflow {
namespace {

constexpr int kUnknown = 2;  // a TF_Code
constexpr int kInt32 = 3;
constexpr int kUint8 = 4;
constexpr int kInt64 = 9;

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

// Farandole's gradient exchange marks by such a shape which gradients travel: 0, their number, and a digest.
bool IsMark(const std::vector<int64_t>& shape) { return shape.size() == 3 && shape[0] == 0 && shape[2] > 0; }

int32_t CountOf(const std::vector<int64_t>& shape) { return static_cast<int32_t>(shape.size()); }

}  // namespace

int TensorFlowCodeOf(int code) { return code == FARANDOLE_ABORTED || code == FARANDOLE_UNAVAILABLE ? kUnknown : code; }

Call::Call(const NodeTerms* terms, TF_OpKernelContext* context, std::function<void()> done)
    : terms_(*terms), context_(context), done_(std::move(done)), status_(Tf().TF_NewStatus()) {}

Call::~Call() { Tf().TF_DeleteStatus(status_); }

bool Call::CheckStatus() {
  return Tf().TF_GetCode(status_) == 0 || Fail(Tf().TF_GetCode(status_), Tf().TF_Message(status_));
}

bool Call::AllocateOutput(int index, int dtype, const std::vector<int64_t>& shape, TF_Tensor** output) {
  *output =
      Tf().TF_AllocateOutput(context_, index, dtype, shape.data(), CountOf(shape), BytesOf(shape, dtype), status_);
  return CheckStatus();
}

bool Call::TakeInput(size_t index) {
  Buffers& buffers = buffers_[index];
  Tensor& tensor = tensors_[index];
  buffers.dtype = Tf().TF_InputDatatype(context_, static_cast<int>(index));
  tensor.dtype = ElementTypeOf(buffers.dtype);
  if (tensor.dtype < 0) {
    return Fail(FARANDOLE_INVALID_ARGUMENT, terms_.name + ": a tensor of TensorFlow's element type " +
                                                std::to_string(buffers.dtype) +
                                                " cannot be sent: farandole has no such element type");
  }
  Tf().TF_GetInput(context_, static_cast<int>(index), &buffers.input, status_);
  if (!CheckStatus()) return false;
  tensor.shape = ShapeOf(buffers.input);
  tensor.input = Tf().TF_TensorData(buffers.input);
  return true;
}

bool Call::ForwardOutput(size_t index) {
  Buffers& buffers = buffers_[index];
  Tensor& tensor = tensors_[index];
  // The input's memory becomes the output's if no other call holds it.
  Tf().TF_DeleteTensor(std::exchange(buffers.input, nullptr));
  int forwarded = -1;
  const int place = static_cast<int>(index);
  buffers.output = Tf().TF_ForwardInputOrAllocateOutput(context_, &place, 1, place, tensor.shape.data(),
                                                        CountOf(tensor.shape), &forwarded, status_);
  if (!CheckStatus()) return false;
  tensor.output = Tf().TF_TensorData(buffers.output);
  tensor.input = tensor.output;
  if (forwarded >= 0) return true;
  Tf().TF_GetInput(context_, place, &buffers.input, status_);
  tensor.input = Tf().TF_TensorData(buffers.input);
  return true;
}

bool Call::WriteIntoInput(size_t index) {
  Tf().TF_SetOutput(context_, static_cast<int>(index), buffers_[index].input, status_);
  tensors_[index].output = Tf().TF_TensorData(buffers_[index].input);
  return CheckStatus();
}

bool Call::AllocateRows(size_t index) {
  std::vector<int64_t> shape = tensors_[index].shape;
  if (!shape.empty()) {
    const int position = Worker().group_rank(terms_.group), size = Worker().group_size(terms_.group);
    // If the rank is not in the group, or does not know it, the submission reports that.
    shape[0] = position < 0 || size <= 0 ? 0 : shape[0] / size + (position < shape[0] % size ? 1 : 0);
  }
  Buffers& buffers = buffers_[index];
  if (!AllocateOutput(static_cast<int>(index), buffers.dtype, shape, &buffers.output)) return false;
  tensors_[index].output = Tf().TF_TensorData(buffers.output);
  return true;
}

bool Call::AllocateLastRank() {
  if (!AllocateOutput(0, kInt32, {}, &buffers_[0].output)) return false;
  tensors_[0].output = Tf().TF_TensorData(buffers_[0].output);
  return true;
}

bool Call::TakeSplits() {
  TF_Tensor* splits = nullptr;
  Tf().TF_GetInput(context_, 1, &splits, status_);
  if (!CheckStatus()) return false;
  const auto* numbers = static_cast<const int64_t*>(Tf().TF_TensorData(splits));
  splits_.assign(numbers, numbers + Tf().TF_TensorByteSize(splits) / sizeof(int64_t));
  Tf().TF_DeleteTensor(splits);
  return true;
}

bool Call::Prepare() {
  const Op op = terms_.op;
  if (!adapter::HasWorkerLibrary()) {
    return Fail(FARANDOLE_FAILED_PRECONDITION, "farandole's TensorFlow ops run where farandole.tensorflow is imported");
  }
  const bool has_one = op == Op::kAlltoall || op == Op::kJoin || op == Op::kBarrier;
  tensors_.resize(has_one ? 1 : static_cast<size_t>(Tf().TF_NumInputs(context_)));
  buffers_.resize(tensors_.size());
  if (op == Op::kBarrier) return true;
  if (op == Op::kJoin) return AllocateLastRank();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!TakeInput(i)) return false;
    const bool is_alike = op == Op::kAllreduce || op == Op::kBroadcast;
    if (is_alike && !(terms_.has_references ? WriteIntoInput(i) : ForwardOutput(i))) return false;
    if (op == Op::kReducescatter && !AllocateRows(i)) return false;
  }
  is_prepared_ = op != Op::kAlltoall || TakeSplits();
  return is_prepared_;
}

bool Call::DeliverGathered(size_t index, std::vector<int64_t>* rows) {
  const Tensor& tensor = tensors_[index];
  int64_t bytes = 0;
  std::vector<int64_t> given;
  if (!ReadResult(tensor, &bytes, &given)) return false;
  std::vector<int64_t> shape = tensor.shape.empty() ? std::vector<int64_t>{0} : tensor.shape;
  shape[0] = std::accumulate(given.begin(), given.end(), int64_t{0});
  Buffers& buffers = buffers_[index];
  if (!AllocateOutput(static_cast<int>(index), buffers.dtype, shape, &buffers.output)) return false;
  rows->insert(rows->end(), given.begin(), given.end());
  return CopyResult(tensor, bytes, Tf().TF_TensorData(buffers.output));
}

bool Call::DeliverResults() {
  // Horovod reports a disagreement between ranks as FailedPrecondition.
  if (!Settle(FARANDOLE_FAILED_PRECONDITION)) return false;
  if (!adapter::AllocatesResult(terms_.op)) return true;
  std::vector<int64_t> rows;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!DeliverGathered(i, &rows)) return false;
  }
  const auto count = static_cast<int64_t>(tensors_.size());
  TF_Tensor* output = nullptr;
  const std::vector<int64_t> shape = {count, static_cast<int64_t>(rows.size()) / count};
  if (!AllocateOutput(static_cast<int>(count), kInt64, shape, &output)) return false;
  std::copy(rows.begin(), rows.end(), static_cast<int64_t*>(Tf().TF_TensorData(output)));
  Tf().TF_DeleteTensor(output);
  return true;
}

std::string Call::Reason() const {
  if (code() != FARANDOLE_FAILED_PRECONDITION || tensors_.empty() || !IsMark(tensors_[0].shape)) return message();
  return message() +
         "; such a shape is the number and a digest of the variables whose gradients a rank has: train and freeze the "
         "same variables on all ranks, and where a rank has no gradient of one, give zeros";
}

bool Call::ReturnFailure() {
  std::string failure;
  if (code() != 0) {
    failure = static_cast<char>(TensorFlowCodeOf(code())) + Reason();
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& tensor = tensors_[i];
      if (tensor.input != tensor.output) {
        std::memcpy(tensor.output, tensor.input, BytesOf(tensor.shape, buffers_[i].dtype));
      }
    }
  }
  TF_Tensor* output = nullptr;
  const std::vector<int64_t> shape = {static_cast<int64_t>(failure.size())};
  if (!AllocateOutput(static_cast<int>(tensors_.size()), kUint8, shape, &output)) return false;
  std::copy(failure.begin(), failure.end(), static_cast<char*>(Tf().TF_TensorData(output)));
  Tf().TF_DeleteTensor(output);
  return true;
}

void Call::Deliver() {
  DeliverResults();
  const bool is_returned = terms_.returns_failure && is_prepared_ && ReturnFailure();
  if (code() != 0 && !is_returned) {
    Tf().TF_SetStatus(status_, TensorFlowCodeOf(code()), Reason().c_str());
    Tf().TF_OpKernelContext_Failure(context_, status_);
  }
  Release();
  for (const Buffers& buffers : buffers_) {
    if (buffers.input != nullptr) Tf().TF_DeleteTensor(buffers.input);
    if (buffers.output != nullptr) Tf().TF_DeleteTensor(buffers.output);
  }
  buffers_.clear();
  done_();
}

}  // namespace farandole::tensorflow
