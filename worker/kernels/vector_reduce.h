#ifndef FARANDOLE_WORKER_KERNELS_VECTOR_REDUCE_H_
#define FARANDOLE_WORKER_KERNELS_VECTOR_REDUCE_H_

// The reductions of one level. For the reduce_<level>.cc files only: see
// vector_types.h on linkage.

#include <cstdint>

#include "worker/kernels/integer_finish.h"
#include "worker/kernels/kernel_table.h"
#include "worker/kernels/vector_elements.h"

namespace farandole {
namespace {

// Four registers in flight hide the latency of an addition; with many inputs
// each is read a few cache lines at a time.
constexpr int kBlockVectors = 4;

enum class Scaling { kNone, kPerInput };

// The elements [begin, end) of a call. kInputs is the number of inputs where it
// is known at compile time, else 0. Every input of a block is read before the block is written, so the output may be
// one of the inputs.
template <typename Element, typename Op, int kInputs, Scaling kScaling>
class RangeReduction {
 public:
  explicit RangeReduction(const ReduceCall& call) : call_(call), finish_(call) {}

  void Run(int64_t begin, int64_t end) const {
    constexpr int64_t kBlock = kBlockVectors * Element::kLanes;
    int64_t at = begin;
    for (; at + kBlock <= end; at += kBlock) Block<kBlockVectors>(at);
    for (; at + Element::kLanes <= end; at += Element::kLanes) Block<1>(at);
    if (at < end) Tail(at, end - at);
  }

 private:
  using Vector = typename Element::Vector;
  static constexpr int64_t kStride = sizeof(typename Element::Stored);
  static constexpr int64_t kElementBytes = kStride / Element::kLanes;

  int64_t InputCount() const { return kInputs > 0 ? kInputs : call_.input_count; }

  Vector Scaled(Vector lanes, int64_t input) const {
    if constexpr (kScaling == Scaling::kPerInput) {
      return Element::Scale(lanes, call_.scales[input]);
    } else {
      (void)input;
      return lanes;
    }
  }

  template <int kVectors>
  void Block(int64_t at) const {
    const int64_t offset = at * kElementBytes;
    const char* from = static_cast<const char*>(call_.inputs[0]) + offset;
    Vector lanes[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      lanes[v] = Scaled(Load<Element>(from + v * kStride), 0);
    }
    for (int64_t input = 1; input < InputCount(); ++input) {
      from = static_cast<const char*>(call_.inputs[input]) + offset;
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        lanes[v] = Op::Apply(lanes[v], Scaled(Load<Element>(from + v * kStride), input));
      }
    }
    char* to = static_cast<char*>(call_.output) + offset;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Store<Element>(to + v * kStride, Element::Finished(lanes[v], finish_));
    }
  }

  // Fewer elements than a register holds: the same arithmetic on all lanes.
  void Tail(int64_t at, int64_t count) const {
    const int64_t offset = at * kElementBytes;
    const int64_t bytes = count * kElementBytes;
    Vector lanes = {};
    for (int64_t input = 0; input < InputCount(); ++input) {
      const char* from = static_cast<const char*>(call_.inputs[input]) + offset;
      const Vector loaded = Scaled(LoadPartial<Element>(from, bytes), input);
      lanes = input == 0 ? loaded : Op::Apply(lanes, loaded);
    }
    StorePartial<Element>(static_cast<char*>(call_.output) + offset, Element::Finished(lanes, finish_), bytes);
  }

  const ReduceCall& call_;
  const typename Element::Finish finish_;
};

template <typename Element, typename Op>
void ReduceUnscaled(const ReduceCall& call, int64_t begin, int64_t end) {
  if (call.input_count == 2) {
    RangeReduction<Element, Op, 2, Scaling::kNone>(call).Run(begin, end);
  } else {
    RangeReduction<Element, Op, 0, Scaling::kNone>(call).Run(begin, end);
  }
}

// Floats and bool.
template <typename Element, typename Op>
void Reduce(const ReduceCall& call) {
  if (call.scales == nullptr) {
    ReduceUnscaled<Element, Op>(call, 0, call.count);
  } else {
    RangeReduction<Element, Op, 0, Scaling::kPerInput>(call).Run(0, call.count);
  }
}

// Elements whose lanes are combined between two other passes over them, few
// enough to stay in the first-level cache.
constexpr int64_t kChunk = 512;

// output[begin, end) becomes the combination of the scaled inputs.
template <typename Element, typename Op, typename Integer>
void ReduceScaledChunk(const ReduceCall& call, int64_t begin, int64_t end) {
  const int64_t count = end - begin;
  const int64_t offset = begin * static_cast<int64_t>(sizeof(Integer));
  Integer combined[kChunk];
  Integer next[kChunk];
  const void* const both[2] = {combined, next};
  const ReduceCall combine = {both, 2, nullptr, combined, count, 0, 1.0};
  for (int64_t input = 0; input < call.input_count; ++input) {
    Integer* to = input == 0 ? combined : next;
    __builtin_memcpy(to, static_cast<const char*>(call.inputs[input]) + offset, count * sizeof(Integer));
    ScaleIntegers(to, count, call.scales[input]);
    if (input > 0) ReduceUnscaled<Element, Op>(combine, 0, count);
  }
  __builtin_memcpy(static_cast<char*>(call.output) + offset, combined, count * sizeof(Integer));
}

// The sum and product of Integer are those of Element, which is unsigned so
// that they wrap.
template <typename Integer, typename Element, typename Op>
void ReduceIntegers(const ReduceCall& call) {
  const bool finishes = call.divisor != 0 || call.postscale != 1.0;
  if (call.scales == nullptr && !finishes) {
    ReduceUnscaled<Element, Op>(call, 0, call.count);
    return;
  }
  for (int64_t begin = 0; begin < call.count; begin += kChunk) {
    const int64_t left = call.count - begin;
    const int64_t end = begin + (left < kChunk ? left : kChunk);
    if (call.scales == nullptr) {
      ReduceUnscaled<Element, Op>(call, begin, end);
    } else {
      ReduceScaledChunk<Element, Op, Integer>(call, begin, end);
    }
    if (!finishes) continue;
    Integer chunk[kChunk];
    char* to = static_cast<char*>(call.output) + begin * sizeof(Integer);
    __builtin_memcpy(chunk, to, (end - begin) * sizeof(Integer));
    if (call.divisor != 0) DivideIntegers(chunk, end - begin, call.divisor);
    ScaleIntegers(chunk, end - begin, call.postscale);
    __builtin_memcpy(to, chunk, (end - begin) * sizeof(Integer));
  }
}

}  // namespace
}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_VECTOR_REDUCE_H_
