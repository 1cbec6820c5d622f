#ifndef FARANDOLE_SDK_MXNET_CALL_H_
#define FARANDOLE_SDK_MXNET_CALL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sdk/adapter/call.h"
#include "sdk/mxnet/mxnet_api.h"

namespace farandole::mxnet {

using adapter::Op;
using adapter::Terms;

// One collective that a program has pushed to MXNet's engine: from its arrays to the operation's completion. It keeps
// the arrays alive. The pushing thread uses it first, then the engine runs it, then the completer.
class Call : public adapter::Call {
 public:
  explicit Call(Terms terms) : terms_(std::move(terms)) {}

  // In the program's thread. An output may be its input; of a barrier and a join there are none. False: the call has
  // failed.
  bool Take(NDArrayHandle const* inputs, NDArrayHandle const* outputs, int count);
  void TakeSplits(const int64_t* splits, int count) { splits_.assign(splits, splits + count); }
  // The arrays that the engine's operation reads, and those that it writes: each memory once.
  void ListArrays(std::vector<NDArrayHandle>* read, std::vector<NDArrayHandle>* written) const;

  // The engine runs the operation: finds where the arrays lie. False: the call has failed.
  bool Begin(const OnComplete& on_complete);

  // Why it has failed.
  const std::string& reason() const { return message(); }
  const Terms& terms() const override { return terms_; }
  // Completes the operation.
  void Deliver() override;

 private:
  struct Arrays {
    OwnedArray input;
    OwnedArray output;
    // The input as the collective reads it.
    OwnedArray readable;
    bool is_in_place = false;
    int64_t output_bytes = 0;
  };

  bool TakeArray(NDArrayHandle input, NDArrayHandle output);
  bool FindMemory(size_t index);
  bool DeliverResults();
  bool Check(int code);

  const Terms terms_;
  std::vector<Arrays> arrays_;
  OnComplete on_complete_ = {};
};

}  // namespace farandole::mxnet

#endif  // FARANDOLE_SDK_MXNET_CALL_H_
