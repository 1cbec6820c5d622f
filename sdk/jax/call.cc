#include "sdk/jax/call.h"

#include <numeric>
#include <utility>

namespace farandole::jax {
namespace {

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

}  // namespace

Call::Call(const FfiApi* api, Op op, std::string name) : api_(api) {
  terms_.op = op;
  terms_.name = std::move(name);
}

void Call::TakeTerms(const FfiAttributes& attributes) {
  terms_.reduce_op = static_cast<int32_t>(NumberAttribute(attributes, "reduce_op"));
  terms_.prescale = DoubleAttribute(attributes, "prescale");
  terms_.postscale = DoubleAttribute(attributes, "postscale");
  terms_.root = static_cast<int32_t>(NumberAttribute(attributes, "root"));
  terms_.group = static_cast<int32_t>(NumberAttribute(attributes, "group"));
  const auto disagreement = static_cast<int>(NumberAttribute(attributes, "disagreement"));
  if (disagreement != 0) disagreement_ = disagreement;
}

bool Call::TakeTensor(const FfiCallFrame* frame, size_t index) {
  const auto* given = static_cast<const FfiBuffer*>(frame->arguments.buffers[index]);
  const auto* made = static_cast<const FfiBuffer*>(frame->results.buffers[index]);
  const ElementType* const type = ElementTypeOf(given->dtype);
  if (type == nullptr) {
    return Fail(FARANDOLE_INVALID_ARGUMENT, terms_.name + ": an array of XLA's element type " +
                                                std::to_string(given->dtype) +
                                                " cannot be sent: farandole has no such element type");
  }
  tensors_[index] = {given->data, made->data, type->farandole, {given->dims, given->dims + given->rank}, 0};
  output_shapes_[index].assign(made->dims, made->dims + made->rank);
  return true;
}

bool Call::Prepare(const FfiCallFrame* frame) {
  if (!adapter::HasWorkerLibrary()) {
    return Fail(FARANDOLE_FAILED_PRECONDITION, "farandole's calls run where its adapter is imported");
  }
  TakeTerms(frame->attributes);
  if (terms_.op == Op::kBarrier || terms_.op == Op::kJoin) {
    tensors_.resize(1);
    if (terms_.op == Op::kJoin) tensors_[0].output = static_cast<const FfiBuffer*>(frame->results.buffers[0])->data;
    return true;
  }
  // The last result is for the call that is to run next, and has no meaning; so has the argument of the one before.
  tensors_.resize(static_cast<size_t>(frame->results.size - 1));
  output_shapes_.resize(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!TakeTensor(frame, i)) return false;
  }
  return true;
}

bool Call::CheckRows(const std::vector<int64_t>& output_shape, const std::vector<int64_t>& rows) {
  if (terms_.op == Op::kScatter || output_shape.empty()) return true;
  const int64_t total = output_shape[0], size = static_cast<int64_t>(rows.size());
  std::vector<int64_t> wanted;
  for (int64_t i = 0; i < size; ++i) wanted.push_back(total / size + (i < total % size ? 1 : 0));
  if (rows == wanted || (terms_.op == Op::kGather && total == 0)) return true;
  return Fail(FARANDOLE_INVALID_ARGUMENT, terms_.name + ": the ranks gave " + ListOf(rows) +
                                              " rows, and this program was compiled for " + ListOf(wanted) +
                                              "; call it outside of jit, where ranks may give different numbers");
}

bool Call::TakeResult(size_t index) {
  const Tensor& tensor = tensors_[index];
  const std::vector<int64_t>& output_shape = output_shapes_[index];
  int64_t bytes = 0;
  std::vector<int64_t> rows;
  if (!ReadResult(tensor, &bytes, &rows) || !CheckRows(output_shape, rows)) return false;
  const int64_t wanted = CountOf(output_shape) * BytesOf(tensor.dtype);
  if (bytes != wanted) {
    return Fail(FARANDOLE_INVALID_ARGUMENT, terms_.name + ": the ranks' rows make " + std::to_string(bytes) +
                                                " bytes, and this program was compiled for " + std::to_string(wanted) +
                                                "; compiled calls need the same shape on all ranks");
  }
  return CopyResult(tensor, bytes, tensor.output);
}

FfiError* Call::Finish() {
  bool is_ok = Settle(disagreement_);
  if (adapter::AllocatesResult(terms_.op)) {
    for (size_t i = 0; i < tensors_.size() && is_ok; ++i) is_ok = TakeResult(i);
  }
  Release();
  return is_ok ? nullptr : MakeError(api_, code(), message());
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
