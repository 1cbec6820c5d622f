#ifndef FARANDOLE_WORKER_TRANSPORT_TESTING_CONFORMANCE_BATCH_H_
#define FARANDOLE_WORKER_TRANSPORT_TESTING_CONFORMANCE_BATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "worker/core/collective.h"

namespace farandole {

// A collective of the conformance suite, as all ranks see it.
struct ConformanceBatch {
  OpType op = OpType::kAllreduce;
  DType dtype = DType::kF32;
  ReduceOp reduce_op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  // The process set, and its ranks, ascending.
  uint32_t group = 0;
  std::vector<int> ranks;
  // Positions: of the broadcast's root, and of those that have joined.
  int root = 0;
  std::vector<int> joined;
  // Elements of the fragments of an allreduce or broadcast; of an allgather or reducescatter, elements by position; of
  // an alltoall, those of position 0 for each position, then those of position 1, ...
  std::vector<int64_t> counts;
  // Outputs are the inputs.
  bool in_place = false;
  // Some floats are NaN, infinite or -0.0.
  bool special_values = false;

  bool HasJoined(int position) const;
  // How many elements an alltoall moves from `from` to `to`.
  int64_t CountFor(size_t from, size_t to) const { return counts[from * ranks.size() + to]; }
  int64_t count() const;
  // For messages: "allreduce of float32 ...".
  std::string ToString() const;
};

// All ranks' memory of one batch: random inputs, outputs, and the expected outputs. The reference reduces the ranks'
// inputs, each scaled and rounded to the dtype, in the order of positions by one call of the kernel; a rank that has
// joined stands for the identity, which is not scaled. Over several hosts it does so for each host, and then with the
// hosts' results. Threads use the parts of their own position.
class ConformanceMemory {
 public:
  // `batch` outlives it. `on_hosts`: how many of the positions are on each host, in their order; empty for one host.
  ConformanceMemory(const ConformanceBatch& batch, uint64_t sequence, std::vector<int> on_hosts = {});

  Collective CollectiveOf(int position) const;

  // INTERNAL: the first byte of an output that is not as the reference says, or of an input that was written.
  absl::Status CheckResult() const;
  // INTERNAL: the first byte that is not equal on all ranks. For reductions in another order than that of the ranks.
  absl::Status CheckEqualOnAllRanks() const;

 private:
  struct Rank {
    // The rank's contribution, joined together.
    std::vector<char> contribution;
    std::vector<std::vector<char>> inputs;
    std::vector<std::vector<char>> outputs;
    std::vector<Fragment> fragments;
    // The elements that an alltoall sends and receives.
    std::vector<int64_t> sent_counts;
    std::vector<int64_t> received_counts;
  };

  void FillRank(int position);
  void FillAlltoallRank(size_t position);
  std::vector<char> Exchanged(size_t position) const;
  std::vector<char> Reduced() const;
  // Each position's contribution, scaled.
  std::vector<std::vector<char>> Scaled() const;
  // Reduces consecutive inputs; finished or not.
  std::vector<char> ReduceSome(const std::vector<std::vector<char>>& inputs, size_t first, size_t count,
                               bool finish) const;
  std::vector<char> Expected(int position) const;
  std::vector<char> ResultOf(int position) const;
  absl::Status CheckSame(int position, const char* what, const std::vector<char>& actual,
                         const std::vector<char>& expected) const;

  const ConformanceBatch& batch_;
  const uint64_t sequence_;
  const std::vector<int> on_hosts_;
  const size_t element_bytes_;
  std::vector<Rank> by_position_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TESTING_CONFORMANCE_BATCH_H_
