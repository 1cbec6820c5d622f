#ifndef FARANDOLE_SDK_ADAPTER_CALL_H_
#define FARANDOLE_SDK_ADAPTER_CALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/adapter/worker_library.h"

namespace farandole::adapter {

enum class Op { kAllreduce, kAllgather, kBroadcast, kReducescatter, kAlltoall, kGather, kScatter, kJoin, kBarrier };

// Whether one rank has all rows, or gets them: the term `root` names it.
constexpr bool HasRoot(Op op) { return op == Op::kBroadcast || op == Op::kGather || op == Op::kScatter; }
// Whether the result is the worker library's memory, with a size that the library learns.
constexpr bool AllocatesResult(Op op) {
  return op == Op::kAllgather || op == Op::kAlltoall || op == Op::kGather || op == Op::kScatter;
}

// A collective's terms besides its tensors.
struct Terms {
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

// One run of a collective for a framework: from its tensors to the completion that the framework waits for. A
// framework's own class takes the tensors and delivers the results. One thread at a time.
class Call {
 public:
  Call() = default;
  // Releases what was submitted.
  virtual ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  virtual const Terms& terms() const = 0;
  // Complete, or failed: writes the results or the error, and tells the framework. The last use of the call.
  virtual void Deliver() = 0;

  // Gives everything to the worker library, which borrows the tensors. False: nothing is on its way, as the call has
  // failed, now or before. `wait_ms`: how long the last submission waits.
  bool Submit(int64_t wait_ms);
  // Whether all that was submitted is complete.
  bool IsComplete() const;
  // Waits until it is. For a thread that would wait anyway.
  void Wait() const;
  // The first failure stays. False, always.
  bool Fail(int code, const std::string& message);

 protected:
  struct Tensor {
    const void* input = nullptr;
    void* output = nullptr;
    int32_t dtype = 0;
    std::vector<int64_t> shape;
    // Of the submission that begins with this tensor.
    farandole_handle handle = 0;
  };

  // Of complete submissions: takes the first failure. `disagreement`: the code where ranks have disagreed. False: the
  // call has failed.
  bool Settle(int disagreement = FARANDOLE_INVALID_ARGUMENT);
  // Of an operation that allocates its results: a result's bytes, and the rows that each rank of the group gave.
  bool ReadResult(const Tensor& tensor, int64_t* bytes, std::vector<int64_t>* rows);
  // Copies it to `output`, which has room for it.
  bool CopyResult(const Tensor& tensor, int64_t bytes, void* output);
  void Release();

  int code() const { return code_; }
  const std::string& message() const { return message_; }

  // A barrier and a join have one without elements; the output of a join is the last rank, an int32_t.
  std::vector<Tensor> tensors_;
  // Of an alltoall; empty: all ranks get equally many rows.
  std::vector<int64_t> splits_;
  int32_t is_on_gpu_ = 0;

 private:
  friend class Completer;

  // The tensors of each submission: of an allreduce those of one element type are one, as in Python.
  std::vector<std::vector<size_t>> Parts() const;
  // Prepares the statement of all tensors, for a call that takes several submissions.
  void StateGroup();
  farandole_handle SubmitReduction(const std::vector<size_t>& indices, const std::string& name,
                                   const farandole_part* part, int64_t wait_ms) const;
  farandole_handle SubmitPart(const std::vector<size_t>& indices, const std::string& name, const farandole_part* part,
                              int64_t wait_ms) const;

  // Empty: each submission is a call of its own.
  std::vector<farandole_member> members_;
  farandole_part part_ = {};
  // Of an operation that allocates its results, at the submission: the group may be removed before they are read.
  int32_t group_size_ = 0;
  int code_ = 0;
  std::string message_;
  // Of the completer: the place among the calls of its name, from 1; 0: it has none yet.
  uint64_t turn_ = 0;
  bool is_skipped_ = false;
};

}  // namespace farandole::adapter

#endif  // FARANDOLE_SDK_ADAPTER_CALL_H_
