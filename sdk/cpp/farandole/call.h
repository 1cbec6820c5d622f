#ifndef FARANDOLE_SDK_CPP_FARANDOLE_CALL_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_CALL_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "farandole/c_api.h"
#include "farandole/process_set.h"
#include "farandole/status.h"
#include "farandole/tensor.h"

namespace farandole {
inline namespace sdk {

/// Reductions. Average divides by the size of the process set; of integers it truncates towards zero. Of bool, sum and
/// max are "or", product and min "and", and there is no average. Adasum is for allreduce of one floating-point tensor.
enum class ReduceOp : int32_t {
  kAverage = FARANDOLE_AVERAGE,
  kSum = FARANDOLE_SUM,
  kAdasum = FARANDOLE_ADASUM,
  kMin = FARANDOLE_MIN,
  kMax = FARANDOLE_MAX,
  kProduct = FARANDOLE_PRODUCT,
};

/// How an operation is called: Call("gradient").With(ReduceOp::kSum).Among(set). Borrows the name and the set for the
/// time of the call.
class Call {
 public:
  Call() = default;
  /// The name identifies the tensor on all ranks: at most 512 bytes of UTF-8, or INVALID_ARGUMENT. "" or nullptr:
  /// unnamed, paired in the order of the calls.
  Call(const char* name) : name_(name) {}
  Call(const std::string& name) : name_(name.c_str()) {}

  /// The reduction; without it, the average.
  Call& With(ReduceOp op) {
    op_ = op;
    return *this;
  }
  /// Factors by which each rank's elements are multiplied before the reduction, and the result after it.
  Call& Prescale(double factor) {
    prescale_ = factor;
    return *this;
  }
  Call& Postscale(double factor) {
    postscale_ = factor;
    return *this;
  }
  /// The ranks that take part; without it, all of the job.
  Call& Among(const ProcessSet& set) {
    set_ = set.is_global() ? nullptr : &set;
    return *this;
  }

  /// The same under another name.
  Call Renamed(const char* name) const {
    Call other = *this;
    other.name_ = name;
    return other;
  }

  const char* name() const { return name_; }
  int32_t op() const { return static_cast<int32_t>(op_); }
  double prescale() const { return prescale_; }
  double postscale() const { return postscale_; }
  int32_t group() const { return set_ == nullptr ? 0 : set_->group(); }
  Status Check() const { return set_ == nullptr ? Status() : set_->Check(); }
  bool is_global() const { return set_ == nullptr; }

 private:
  const char* name_ = nullptr;
  ReduceOp op_ = ReduceOp::kAverage;
  double prescale_ = 1;
  double postscale_ = 1;
  const ProcessSet* set_ = nullptr;
};

/// Whether an operation may be called so, before the library is asked. INVALID_ARGUMENT, and FAILED_PRECONDITION of
/// process sets: one sentence with both values.
template <typename Tensor>
Status CheckOne(const Tensor& tensor, const Call& call) {
  if (!tensor.is_whole()) return tensor.Check();
  return call.is_global() ? Status() : call.Check();
}
template <typename Input>
Status CheckTypes(const Input& input, const MutableTensor& output, const Call& call) {
  if (input.dtype() != output.dtype()) {
    return Status(StatusCode::kInvalidArgument, std::string("the input has elements of ") + NameOf(input.dtype()) +
                                                    ", and the output of " + NameOf(output.dtype()));
  }
  if (!output.is_whole()) return output.Check();
  return CheckOne(input, call);
}
template <typename Input>
Status CheckPair(const Input& input, const MutableTensor& output, const Call& call) {
  if (input.shape().count() != output.shape().count()) {
    return Status(StatusCode::kInvalidArgument,
                  "the input has shape " + input.shape().ToString() + ", and the output " + output.shape().ToString());
  }
  return CheckTypes(input, output, call);
}

inline Status CheckNumbers(size_t inputs, size_t outputs) {
  if (inputs == outputs) return Status();
  return Status(StatusCode::kInvalidArgument, "a grouped operation got " + std::to_string(inputs) + " inputs and " +
                                                  std::to_string(outputs) + " outputs; it needs as many of each");
}

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_CALL_H_
