#ifndef FARANDOLE_SDK_JAX_CALL_H_
#define FARANDOLE_SDK_JAX_CALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/jax/worker_library.h"
#include "sdk/jax/xla_ffi.h"

namespace farandole::jax {

enum class Op { kAllreduce, kAllgather, kBroadcast, kReducescatter, kAlltoall, kGather, kScatter };

// The attributes of a custom call.
struct Attributes {
  Op op = Op::kAllreduce;
  std::string name;
  int32_t reduce_op = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  int32_t root = 0;
  int32_t group = 0;
};

// One run of a collective in a program: from its arguments to its results. One thread at a time.
//
// XLA keeps arguments and results alive until the handler has returned, or, where Postpone() has given it a future,
// until Deliver().
class Call {
 public:
  Call(const FfiApi* api, Op op, std::string name);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Takes what the frame says. False: the call has failed.
  bool Prepare(const FfiCallFrame* frame);
  // The arrays are in the GPU whose stream this thread uses (farandole_use_stream).
  void SetOnGpu() { is_on_gpu_ = 1; }
  // Gives everything to the worker library, which borrows the memory. False: nothing is on its way, as the call has
  // failed. `wait_ms`: how long the last submission waits.
  bool Submit(int64_t wait_ms);
  // Whether all that was submitted is complete.
  bool IsComplete() const;
  // Waits until it is. For a thread that would wait anyway.
  void Wait() const;
  // Complete, or failed: writes the results. NULL, or the error, which is XLA's from then on.
  FfiError* Finish();
  // The first failure stays. False, always.
  bool Fail(int code, const std::string& message);
  // The handler is to return before the call is complete: the future that XLA waits for. NULL: XLA gives none.
  FfiFuture* Postpone();
  // After Postpone(): finishes the call, and tells XLA.
  void Deliver();

  const Attributes& attributes() const { return attributes_; }

 private:
  struct Item {
    const void* input = nullptr;
    void* output = nullptr;
    int32_t dtype = 0;
    std::vector<int64_t> shape;
    std::vector<int64_t> output_shape;
    farandole_handle handle = 0;
  };

  void TakeAttributes(const FfiAttributes& attributes);
  bool TakeItem(const FfiCallFrame* frame, int64_t index, Item* item);
  // The items of each submission: of an allreduce those of one element type are one, as in Python.
  std::vector<std::vector<size_t>> Parts() const;
  farandole_handle SubmitReduction(const std::vector<size_t>& indices, const std::string& name,
                                   const farandole_part* part, int64_t wait_ms);
  farandole_handle SubmitPart(const std::vector<size_t>& indices, const std::string& name, const farandole_part* part,
                              int64_t wait_ms);
  // Prepares the statement of all arrays, for a call that takes several submissions.
  void StateGroup();
  // Of an operation whose result the library has allocated.
  bool TakeResult(const Item& item);
  bool CheckRows(const Item& item, const std::vector<int64_t>& rows);

  const FfiApi* const api_;
  Attributes attributes_;
  std::vector<Item> items_;
  // Empty: each submission is a call of its own.
  std::vector<farandole_member> members_;
  farandole_part part_ = {};
  FfiFuture* future_ = nullptr;
  int32_t is_on_gpu_ = 0;
  int code_ = 0;
  std::string message_;
};

}  // namespace farandole::jax

#endif  // FARANDOLE_SDK_JAX_CALL_H_
