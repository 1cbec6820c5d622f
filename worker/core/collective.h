#ifndef FARANDOLE_WORKER_CORE_COLLECTIVE_H_
#define FARANDOLE_WORKER_CORE_COLLECTIVE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/op_type.h"

namespace farandole {

struct GpuBatch;

// Whether the op combines the ranks' contributions.
inline bool Reduces(OpType op) { return TraitsOf(op).reduces; }

// One piece of this rank's contiguous memory: `count` elements at `input` give the same number at `output`. The two are
// equal or do not overlap. Borrowed.
struct Fragment {
  const void* input = nullptr;
  void* output = nullptr;
  int64_t count = 0;
};

// One batch as one rank runs it. Everything but the pointers, `position`, `contributes` and an alltoall's counts is
// equal on all ranks of the group.
struct Collective {
  // Number of the batch in the epoch's order log: greater than that of all batches before.
  uint64_t sequence = 0;
  OpType op = OpType::kAllreduce;
  DType dtype = DType::kF32;
  ReduceOp reduce_op = ReduceOp::kSum;
  // Each rank's input is multiplied by `prescale` and rounded to the dtype before it is combined (an identity is not
  // scaled); the result is multiplied by `postscale`, in the precision of the reduction.
  double prescale = 1.0;
  double postscale = 1.0;
  // The process set, by its number in the epoch; 0: all ranks.
  uint32_t group = 0;
  // Its ranks, ascending, and this rank's position among them.
  absl::Span<const int> ranks;
  int position = 0;
  // Broadcast: the position that sends.
  int root = 0;
  // Elements of the batch. Allgather, alltoall: of the result.
  int64_t count = 0;
  // Allgather: elements that each position contributes; reducescatter: that it gets; alltoall: that this rank gets from
  // each position. Their sum is `count`. Else empty.
  absl::Span<const int64_t> counts;
  // Alltoall: elements that this rank has for each position.
  absl::Span<const int64_t> sent_counts;
  // Allreduce, broadcast: `count` elements in all, fused in this order. Allgather: one fragment whose input has
  // counts[position] elements and whose output has `count`; its own count is that of the input. Reducescatter: the
  // elements for position 0, then those for position 1, ..., all fused in this order; those for other positions have no
  // output. Alltoall: one, whose input has the elements for position 0, then for position 1, ..., and whose output has
  // `count` elements; its own count is that of the input. Barrier: none. Empty where `contributes` is false.
  absl::Span<const Fragment> fragments;
  // Allreduce: not 0 if all ranks' fragments lie in the arena of this number, at equal offsets, each its own output,
  // and all ranks have submitted them already. Then every rank contributes. Only the transport of one host has arenas.
  uint64_t arena = 0;
  // False: the rank has joined; it contributes the identity of the reduction, or no rows, and drops the result.
  bool contributes = true;
  // Not null: the fragments lie in a GPU's memory, and this describes how the GPU is used. No transport of the host's
  // memory is asked for such a collective, which is never a barrier, nor one with an arena.
  GpuBatch* gpu_batch = nullptr;
};

// Adasum combines whole tensors, those of two ranks at a time (worker/kernels/adasum.h).
inline bool IsAdasum(const Collective& collective) {
  return Reduces(collective.op) && collective.reduce_op == ReduceOp::kAdasum;
}

// A collective in progress on one rank. Made and advanced by the thread that has the engine's role.
class Operation {
 public:
  virtual ~Operation() = default;
  // Does the work that can be done now, at most about 100 us of it, and never blocks. Returns true when the collective
  // is complete on this rank: its outputs are written, and no rank reads its inputs any more. ABORTED and others end
  // the epoch.
  virtual absl::StatusOr<bool> Advance() = 0;
  // Whether the last Advance got anything done; the engine yields and sleeps only if not.
  virtual bool moved() const = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CORE_COLLECTIVE_H_
