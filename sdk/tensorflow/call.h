#ifndef FARANDOLE_SDK_TENSORFLOW_CALL_H_
#define FARANDOLE_SDK_TENSORFLOW_CALL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sdk/tensorflow/tensorflow_api.h"
#include "sdk/tensorflow/worker_library.h"

namespace farandole::tensorflow {

enum class Op { kAllreduce, kAllgather, kBroadcast, kReducescatter, kAlltoall, kGather, kScatter, kJoin, kBarrier };

// Whether one rank has all rows, or gets them: the attribute `root_rank` names it.
constexpr bool HasRoot(Op op) { return op == Op::kBroadcast || op == Op::kGather || op == Op::kScatter; }
// Whether the result is the worker library's memory, with a size that the library learns.
constexpr bool AllocatesResult(Op op) {
  return op == Op::kAllgather || op == Op::kAlltoall || op == Op::kGather || op == Op::kScatter;
}

// The attributes of a node.
struct Attributes {
  Op op = Op::kAllreduce;
  std::string name;  // empty: unnamed
  int32_t reduce_op = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  int32_t root = 0;
  int32_t group = 0;
  // The caller waits anyway: its thread does the work.
  bool waits = false;
};

// One run of a collective op's kernel: from its inputs to the `done` that TensorFlow waits for. One thread at a time.
class Call {
 public:
  // `attributes` and `context` outlive it.
  Call(const Attributes* attributes, TF_OpKernelContext* context, std::function<void()> done);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Takes the inputs, and outputs whose shapes are known. False: the call has failed.
  bool Prepare();
  // Gives everything to the worker library, which borrows the tensors. False: nothing is on its way, as the call has
  // failed. `wait_ms`: how long the last submission waits.
  bool Submit(int64_t wait_ms);
  // Whether all that was submitted is complete.
  bool IsComplete() const;
  // Waits until it is. For the thread that would wait anyway.
  void Wait() const;
  // Complete, or failed: writes the outputs or the error, and runs `done`. Nothing of the context is used afterwards.
  void Deliver();

  const Attributes& attributes() const { return attributes_; }

 private:
  struct Item {
    TF_Tensor* input = nullptr;
    TF_Tensor* output = nullptr;
    int dtype = 0;  // TensorFlow's
    int32_t element_type = 0;
    std::vector<int64_t> shape;
    farandole_handle handle = 0;
  };

  bool TakeInput(int index, Item* item);
  bool ForwardOutput(int index, Item* item);
  bool AllocateRows(int index, Item* item);
  bool TakeSplits();
  farandole_handle SubmitGroup(int64_t wait_ms);
  // Prepares the statement of all tensors, for a call that takes a submission for each.
  void StateGroup();
  farandole_handle SubmitOne(size_t index, int64_t wait_ms);
  bool DeliverResults();
  bool DeliverGathered(size_t index, int64_t* rows);
  // The first failure stays. False, always.
  bool Fail(int code, const std::string& message);

  const Attributes& attributes_;
  TF_OpKernelContext* const context_;
  const std::function<void()> done_;
  TF_Status* const status_;
  std::vector<Item> items_;
  std::vector<int64_t> splits_;
  // Empty: each submission is a call of its own.
  std::vector<farandole_member> members_;
  farandole_part part_ = {};
  int code_ = 0;
  std::string message_;
};

}  // namespace farandole::tensorflow

#endif  // FARANDOLE_SDK_TENSORFLOW_CALL_H_
