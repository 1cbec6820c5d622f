#ifndef FARANDOLE_DEPLOY_BENCH_CASE_H_
#define FARANDOLE_DEPLOY_BENCH_CASE_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace farandole::bench {

enum class Op { kAllreduce, kAllgather, kBroadcast, kBarrier };

// "allreduce", "allgather", "broadcast", "barrier".
const char* Name(Op op);

// The case that one line of the table measures.
struct Case {
  Op op = Op::kAllreduce;
  DType dtype = DType::kF32;
  // Of allreduce: kSum, kMin or kMax.
  ReduceOp reduce = ReduceOp::kSum;
  // Elements of one tensor: of allgather those that a rank contributes, of barrier 0.
  size_t count = 0;
  // How many tensors travel in one step, each with a name of its own.
  int tensors = 1;
  // The tensors lie in an arena (farandole.h), one after the other.
  bool in_arena = false;

  // Of one tensor's result on a rank, as nccl-tests counts.
  uint64_t Bytes(int size) const;
  // True if all ranks leave a step together, with any sizes: then steps need no barrier between them.
  bool Synchronizes() const { return op != Op::kBroadcast; }
};

}  // namespace farandole::bench

#endif  // FARANDOLE_DEPLOY_BENCH_CASE_H_
