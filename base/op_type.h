#ifndef FARANDOLE_BASE_OP_TYPE_H_
#define FARANDOLE_BASE_OP_TYPE_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace farandole {

// The collectives that a submission can ask for; numbers as in proto/farandole/v1/types.proto.
enum class OpType : uint8_t {
  kAllreduce = 0,
  kAllgather = 1,
  kBroadcast = 2,
  kBarrier = 3,
  kAlltoall = 4,
  kReducescatter = 5,
  kJoin = 6,
  kGather = 7,
  kScatter = 8,
};

// The number of values of OpType: every value is in [0, kOpTypeCount).
inline constexpr int kOpTypeCount = 9;

// Traits of an op, by which the coordinator and the worker decide. A new op is one row below.
struct OpTraits {
  // The op's use of the first dimension of its tensors.
  enum class Rows : uint8_t {
    kNone,       // nothing
    kGathers,    // puts the ranks' rows one behind the other; a scalar counts as one row
    kSharesOut,  // gives ranks parts of the rows; a scalar has none, and is refused
  };
  // How ranks learn how many elements come from, or go to, each position of the group.
  enum class Counts : uint8_t {
    kNone,       // they need not
    kStated,     // each rank states its own when it is ready, and the order has all
    kShares,     // the order has the shares of one tensor's rows, which differ by one row at most
    kExchanged,  // each rank tells each other one, as the collective begins
  };
  // Which of several submissions of the op may run as one collective.
  enum class Fusion : uint8_t {
    kNone,
    kSameReduction,  // those of one element type, reduction and factors
    kSameRoot,       // those of one root, whatever their element types: they travel as bytes
  };

  // "reducescatter"
  absl::string_view name;
  // The name of calls without one: "unnamed.reducescatter".
  absl::string_view unnamed;
  // The tensors of a submission: none, one, or any number.
  enum class Tensors : uint8_t { kNone, kOne, kMany };
  Tensors tensors;
  Rows rows;
  Counts counts;
  // Ranks' first dimensions may differ.
  bool has_own_rows;
  // Combines what the ranks contribute.
  bool reduces;
  // One rank sends to, or receives from, all others.
  bool has_root;
  // The result is memory of the handle, since the caller cannot know its size.
  bool allocates_result;
  // Small ones travel with readiness and order, not through a transport.
  bool may_be_inline;
  Fusion fusion;
};

// In the order of the enum's numbers. Join is no collective, but is stated and ordered as one.
inline constexpr OpTraits kOpTraits[kOpTypeCount] = {
    {"allreduce", "unnamed.allreduce", OpTraits::Tensors::kMany, OpTraits::Rows::kNone, OpTraits::Counts::kNone,
     /*has_own_rows=*/false, /*reduces=*/true, /*has_root=*/false, /*allocates_result=*/false, /*may_be_inline=*/true,
     OpTraits::Fusion::kSameReduction},
    {"allgather", "unnamed.allgather", OpTraits::Tensors::kOne, OpTraits::Rows::kGathers, OpTraits::Counts::kStated,
     /*has_own_rows=*/true, /*reduces=*/false, /*has_root=*/false, /*allocates_result=*/true, /*may_be_inline=*/false,
     OpTraits::Fusion::kNone},
    {"broadcast", "unnamed.broadcast", OpTraits::Tensors::kOne, OpTraits::Rows::kNone, OpTraits::Counts::kNone,
     /*has_own_rows=*/false, /*reduces=*/false, /*has_root=*/true, /*allocates_result=*/false, /*may_be_inline=*/true,
     OpTraits::Fusion::kSameRoot},
    {"barrier", "unnamed.barrier", OpTraits::Tensors::kNone, OpTraits::Rows::kNone, OpTraits::Counts::kNone,
     /*has_own_rows=*/false, /*reduces=*/false, /*has_root=*/false, /*allocates_result=*/false, /*may_be_inline=*/true,
     OpTraits::Fusion::kNone},
    {"alltoall", "unnamed.alltoall", OpTraits::Tensors::kOne, OpTraits::Rows::kSharesOut, OpTraits::Counts::kExchanged,
     /*has_own_rows=*/true, /*reduces=*/false, /*has_root=*/false, /*allocates_result=*/true, /*may_be_inline=*/false,
     OpTraits::Fusion::kNone},
    {"reducescatter", "unnamed.reducescatter", OpTraits::Tensors::kOne, OpTraits::Rows::kSharesOut,
     OpTraits::Counts::kShares, /*has_own_rows=*/false, /*reduces=*/true, /*has_root=*/false,
     /*allocates_result=*/false, /*may_be_inline=*/true, OpTraits::Fusion::kSameReduction},
    {"join", "unnamed.join", OpTraits::Tensors::kNone, OpTraits::Rows::kNone, OpTraits::Counts::kNone,
     /*has_own_rows=*/false, /*reduces=*/false, /*has_root=*/false, /*allocates_result=*/false, /*may_be_inline=*/false,
     OpTraits::Fusion::kNone},
    {"gather", "unnamed.gather", OpTraits::Tensors::kOne, OpTraits::Rows::kGathers, OpTraits::Counts::kStated,
     /*has_own_rows=*/true, /*reduces=*/false, /*has_root=*/true, /*allocates_result=*/true, /*may_be_inline=*/false,
     OpTraits::Fusion::kNone},
    {"scatter", "unnamed.scatter", OpTraits::Tensors::kOne, OpTraits::Rows::kSharesOut, OpTraits::Counts::kShares,
     /*has_own_rows=*/true, /*reduces=*/false, /*has_root=*/true, /*allocates_result=*/true, /*may_be_inline=*/false,
     OpTraits::Fusion::kNone},
};

// `op` must be a value of the enum.
constexpr const OpTraits& TraitsOf(OpType op) { return kOpTraits[static_cast<int>(op)]; }

// The bytes that each rank must at least send or receive, over the bytes of the collective, by nccl-tests'
// doc/PERFORMANCE.md: bus bandwidth over algorithm bandwidth. 0 for an op without tensors.
constexpr double BusFactor(OpType op, double ranks) {
  const OpTraits& traits = TraitsOf(op);
  if (traits.tensors == OpTraits::Tensors::kNone) return 0;
  if (traits.rows != OpTraits::Rows::kNone) return (ranks - 1) / ranks;
  return traits.reduces ? 2 * (ranks - 1) / ranks : 1;
}

}  // namespace farandole

#endif  // FARANDOLE_BASE_OP_TYPE_H_
