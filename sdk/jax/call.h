#ifndef FARANDOLE_SDK_JAX_CALL_H_
#define FARANDOLE_SDK_JAX_CALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/adapter/call.h"
#include "sdk/jax/xla_ffi.h"

namespace farandole::jax {

using adapter::Op;
using adapter::Terms;
using adapter::Worker;

// One run of a collective in a program: from its arguments to its results.
//
// XLA keeps arguments and results alive until the handler has returned, or, where Postpone() has given it a future,
// until Deliver().
class Call : public adapter::Call {
 public:
  Call(const FfiApi* api, Op op, std::string name);

  // Takes what the frame says. False: the call has failed.
  bool Prepare(const FfiCallFrame* frame);
  // The arrays are in the GPU whose stream this thread uses (farandole_use_stream).
  void SetOnGpu() { is_on_gpu_ = 1; }
  // Complete, or failed: writes the results. NULL, or the error, which is XLA's from then on.
  FfiError* Finish();
  // The handler is to return before the call is complete: the future that XLA waits for. NULL: XLA gives none.
  FfiFuture* Postpone();

  const Terms& terms() const override { return terms_; }
  // After Postpone(): finishes the call, and tells XLA.
  void Deliver() override;

 private:
  void TakeTerms(const FfiAttributes& attributes);
  bool TakeTensor(const FfiCallFrame* frame, size_t index);
  // Of an operation whose result the library has allocated.
  bool TakeResult(size_t index);
  bool CheckRows(const std::vector<int64_t>& output_shape, const std::vector<int64_t>& rows);

  const FfiApi* const api_;
  Terms terms_;
  // The code where ranks have disagreed.
  int disagreement_ = FARANDOLE_INVALID_ARGUMENT;
  std::vector<std::vector<int64_t>> output_shapes_;
  FfiFuture* future_ = nullptr;
};

}  // namespace farandole::jax

#endif  // FARANDOLE_SDK_JAX_CALL_H_
