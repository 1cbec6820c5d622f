#ifndef FARANDOLE_DEPLOY_BENCH_CASE_H_
#define FARANDOLE_DEPLOY_BENCH_CASE_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/op_type.h"

namespace farandole::bench {

// The case that one line of the table measures.
struct Case {
  OpType op = OpType::kAllreduce;
  DType dtype = DType::kF32;
  // kSum, kMin or kMax, if the op reduces.
  ReduceOp reduce = ReduceOp::kSum;
  // Elements of one tensor: those that a rank contributes, or of a broadcast and a scatter the root; 0 for a barrier.
  // An op that shares out rows has as many for each rank.
  size_t count = 0;
  // How many tensors travel in one step, each with a name of its own.
  int tensors = 1;
  // The tensors lie in an arena (farandole.h), one after the other.
  bool in_arena = false;

  // The bytes of one tensor, as nccl-tests counts: of an op that gathers rows its result, of the others its input.
  uint64_t Bytes(int size) const;
  // True if all ranks leave a step together, with any sizes: then steps need no barrier between them.
  bool Synchronizes() const { return !TraitsOf(op).has_root; }
};

}  // namespace farandole::bench

#endif  // FARANDOLE_DEPLOY_BENCH_CASE_H_
