#ifndef FARANDOLE_SDK_TENSORFLOW_CALL_H_
#define FARANDOLE_SDK_TENSORFLOW_CALL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sdk/adapter/call.h"
#include "sdk/tensorflow/tensorflow_api.h"

namespace farandole::tensorflow {

using adapter::Op;
using adapter::Terms;
using adapter::Worker;

// The terms of a node.
struct NodeTerms : Terms {
  // Of a broadcast into a variable's memory: a failure is a result, as the variable has to get its memory back.
  bool returns_failure = false;
  // Its inputs are variables of v1 that are references: the outputs are their memory.
  bool has_references = false;
};

// TensorFlow's code of a failure with one of ours. A MonitoredTrainingSession takes ABORTED and UNAVAILABLE for a
// worker that comes back, and makes new sessions for ever: the end of an epoch is UNKNOWN, as with Horovod.
int TensorFlowCodeOf(int code);

// One run of a collective op's kernel: from its inputs to the `done` that TensorFlow waits for.
class Call : public adapter::Call {
 public:
  // `terms`, those of the node, and `context` outlive it.
  Call(const NodeTerms* terms, TF_OpKernelContext* context, std::function<void()> done);
  ~Call() override;

  // Takes the inputs, and outputs whose shapes are known. False: the call has failed.
  bool Prepare();

  const Terms& terms() const override { return terms_; }
  // Runs `done`. Nothing of the context is used afterwards.
  void Deliver() override;

 private:
  // TensorFlow's side of a tensor.
  struct Buffers {
    TF_Tensor* input = nullptr;
    TF_Tensor* output = nullptr;
    int dtype = 0;
  };

  bool TakeInput(size_t index);
  bool ForwardOutput(size_t index);
  bool WriteIntoInput(size_t index);
  bool AllocateRows(size_t index);
  bool AllocateLastRank();
  bool TakeSplits();
  bool AllocateOutput(int index, int dtype, const std::vector<int64_t>& shape, TF_Tensor** output);
  bool DeliverResults();
  bool DeliverGathered(size_t index, std::vector<int64_t>* rows);
  // Why the call has failed, for people.
  std::string Reason() const;
  // Puts the failure into the last output, which is empty if there is none. The others have the inputs' elements then.
  bool ReturnFailure();
  // Whether the last call of TensorFlow's has succeeded; else the call fails.
  bool CheckStatus();

  const NodeTerms& terms_;
  TF_OpKernelContext* const context_;
  const std::function<void()> done_;
  TF_Status* const status_;
  std::vector<Buffers> buffers_;
  bool is_prepared_ = false;
};

}  // namespace farandole::tensorflow

#endif  // FARANDOLE_SDK_TENSORFLOW_CALL_H_
