#ifndef FARANDOLE_WORKER_KERNELS_VECTOR_ELEMENTS_H_
#define FARANDOLE_WORKER_KERNELS_VECTOR_ELEMENTS_H_

// How each element type is loaded into lanes, scaled, finished and stored, and
// how two vectors combine. For the reduce_<level>.cc files only: see
// vector_types.h on linkage.
//
// A Level has kBytes (of a register), the conversions of PortableHalf, and LoadPartial and StorePartial of
// PortablePartial. An Element has Stored (the vector in memory), Vector (the lanes), Widen and Narrow between the two,
// Scale and Finished.

#include <cstdint>

#include "worker/kernels/kernel_table.h"
#include "worker/kernels/vector_float8.h"
#include "worker/kernels/vector_types.h"

namespace farandole {
namespace {

// Reads and writes the first `bytes` of a vector, fewer than it has.
struct PortablePartial {
  template <typename Stored>
  static Stored LoadPartial(const char* from, int64_t bytes) {
    Stored stored = {};
    __builtin_memcpy(&stored, from, bytes);
    return stored;
  }
  template <typename Stored>
  static void StorePartial(char* to, Stored stored, int64_t bytes) {
    __builtin_memcpy(to, &stored, bytes);
  }
};

template <typename Element>
typename Element::Vector Load(const char* from) {
  typename Element::Stored stored;
  __builtin_memcpy(&stored, from, sizeof(stored));
  return Element::Widen(stored);
}

template <typename Element>
void Store(char* to, typename Element::Vector lanes) {
  const typename Element::Stored stored = Element::Narrow(lanes);
  __builtin_memcpy(to, &stored, sizeof(stored));
}

template <typename Element>
typename Element::Vector LoadPartial(const char* from, int64_t bytes) {
  using Stored = typename Element::Stored;
  return Element::Widen(Element::Level::template LoadPartial<Stored>(from, bytes));
}

template <typename Element>
void StorePartial(char* to, typename Element::Vector lanes, int64_t bytes) {
  Element::Level::StorePartial(to, Element::Narrow(lanes), bytes);
}

// Makes all NaNs one: which operand's payload survives an addition depends on
// the order in which the compiler names the operands.
template <typename Bits, typename Floats>
Floats CanonicalNans(Floats floats) {
  constexpr auto kNan = sizeof(Bits{}[0]) == 8 ? 0x7ff8000000000000u : uint64_t{0x7fc00000u};
  using Lane = decltype(+Bits{}[0]);
  const Bits nan = Bits{} + static_cast<Lane>(kNan);
  return floats != floats ? (Floats)nan : floats;
}

// Finishes the combined lanes before they are stored.
template <typename Lane, int kBytes>
struct FloatFinish {
  using Vector = typename VectorOf<Lane, kBytes>::Type;

  explicit FloatFinish(const ReduceCall& call)
      : divides(call.divisor != 0),
        scales(call.postscale != 1.0),
        divisor(Vector{} + static_cast<Lane>(call.divisor)),
        factor(Vector{} + static_cast<Lane>(call.postscale)) {}

  bool divides;
  bool scales;
  Vector divisor;
  Vector factor;
};

template <typename TheLevel, typename Float, typename BitsLane>
struct FloatElement {
  using Level = TheLevel;
  using Vector = typename VectorOf<Float, Level::kBytes>::Type;
  using Bits = typename VectorOf<BitsLane, Level::kBytes>::Type;
  using Stored = Vector;
  using Finish = FloatFinish<Float, Level::kBytes>;
  static constexpr int64_t kLanes = Level::kBytes / sizeof(Float);
  static constexpr bool kHasNan = true;

  static Vector Widen(Stored stored) { return stored; }
  static Stored Narrow(Vector lanes) { return lanes; }
  static Vector Scale(Vector lanes, double factor) { return lanes * static_cast<Float>(factor); }
  static Vector Finished(Vector lanes, const Finish& finish) {
    if (finish.divides) lanes = lanes / finish.divisor;
    if (finish.scales) lanes = lanes * finish.factor;
    return CanonicalNans<Bits>(lanes);
  }
};

template <typename Level>
using F32Element = FloatElement<Level, float, uint32_t>;
template <typename Level>
using F64Element = FloatElement<Level, double, uint64_t>;

// Half precision is computed in float lanes and rounded at the store.
template <typename Level>
struct F16Element : F32Element<Level> {
  using Vector = typename F32Element<Level>::Vector;
  using Stored = typename VectorTypes<Level::kBytes>::Half;

  static Vector Widen(Stored stored) { return Level::WidenF16(stored); }
  static Stored Narrow(Vector lanes) { return Level::NarrowF16(lanes); }
};

template <typename Level>
struct BF16Element : F32Element<Level> {
  using Vector = typename F32Element<Level>::Vector;
  using Stored = typename VectorTypes<Level::kBytes>::Half;

  static Vector Widen(Stored stored) { return Level::WidenBF16(stored); }
  static Stored Narrow(Vector lanes) { return Level::NarrowBF16(lanes); }
};

template <typename Level, typename Format>
struct Float8Element : F32Element<Level> {
  using Vector = typename F32Element<Level>::Vector;
  using Words = typename VectorTypes<Level::kBytes>::Words;
  using Stored = typename VectorTypes<Level::kBytes>::Bytes;

  static Vector Widen(Stored stored) { return Format::Widen(Level::WidenBytes(stored)); }
  static Stored Narrow(Vector lanes) { return Level::NarrowBytes(NarrowedFloat8<Format, Words>(lanes)); }
};

// Integers are scaled and finished outside the lanes: see vector_reduce.h.
template <typename TheLevel, typename Integer>
struct IntegerElement {
  using Level = TheLevel;
  using Vector = typename VectorOf<Integer, Level::kBytes>::Type;
  using Stored = Vector;
  struct Finish {
    explicit Finish(const ReduceCall&) {}
  };
  static constexpr int64_t kLanes = Level::kBytes / sizeof(Integer);
  static constexpr bool kHasNan = false;

  static Vector Widen(Stored stored) { return stored; }
  static Stored Narrow(Vector lanes) { return lanes; }
  static Vector Finished(Vector lanes, const Finish&) { return lanes; }
};

// Lanes are 0 or 1, so that or is the maximum and and is the minimum. A factor
// of zero makes false, any other changes nothing.
template <typename Level>
struct BoolElement : IntegerElement<Level, uint8_t> {
  using Vector = typename IntegerElement<Level, uint8_t>::Vector;
  struct Finish {
    explicit Finish(const ReduceCall& call) : clears(call.postscale == 0.0) {}
    bool clears;
  };

  static Vector Widen(Vector stored) { return (Vector)(stored != 0) & 1; }
  static Vector Scale(Vector lanes, double factor) { return factor == 0.0 ? Vector{} : lanes; }
  static Vector Finished(Vector lanes, const Finish& finish) { return finish.clears ? Vector{} : lanes; }
};

// `earlier` combines the lower ranks. Min and max keep it where the two are
// equal (so of -0.0 and 0.0 the lower rank's), and a NaN on either side wins.
template <typename Element>
struct Add {
  using Vector = typename Element::Vector;
  static Vector Apply(Vector earlier, Vector later) { return earlier + later; }
};

template <typename Element>
struct Multiply {
  using Vector = typename Element::Vector;
  static Vector Apply(Vector earlier, Vector later) { return earlier * later; }
};

template <typename Element>
struct Minimum {
  using Vector = typename Element::Vector;
  static Vector Apply(Vector earlier, Vector later) {
    const Vector least = later < earlier ? later : earlier;
    if constexpr (Element::kHasNan) {
      return later != later ? later : least;
    } else {
      return least;
    }
  }
};

template <typename Element>
struct Maximum {
  using Vector = typename Element::Vector;
  static Vector Apply(Vector earlier, Vector later) {
    const Vector greatest = later > earlier ? later : earlier;
    if constexpr (Element::kHasNan) {
      return later != later ? later : greatest;
    } else {
      return greatest;
    }
  }
};

}  // namespace
}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_VECTOR_ELEMENTS_H_
