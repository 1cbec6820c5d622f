// Copies many pieces of memory at once, or scales them on the way. Compiled twice: by clang to PTX, which the library
// carries and the driver compiles for its GPU (batch_kernel.cc), and for the host, where tests run it
// (host_kernels.cc). nvptx_target.h and host_target.h, one of which comes first, have the differences.
#include <cstdint>
#include <limits>

#include "worker/device/piece_batch.h"

namespace farandole {
namespace {

constexpr uint32_t kThreads = PieceBatch::kThreads;

// The bytes that one block copies.
struct Tile {
  const char* from;
  char* to;
  uint32_t bytes;
};

__device__ inline Tile OwnTile(const PieceBatch& batch) {
  const uint32_t tile = BlockNumber();
  // The first piece that ends after it.
  uint32_t piece = 0;
  for (uint32_t last = batch.count - 1; piece < last;) {
    const uint32_t middle = (piece + last) / 2;
    if (batch.end_tile[middle] > tile) {
      last = middle;
    } else {
      piece = middle + 1;
    }
  }
  const uint32_t first = piece == 0 ? 0 : batch.end_tile[piece - 1];
  const uint64_t begin = (tile - first) * PieceBatch::kTileBytes;
  const uint64_t left = batch.bytes[piece] - begin;
  const uint64_t bytes = left < PieceBatch::kTileBytes ? left : PieceBatch::kTileBytes;
  return {batch.from[piece] + begin, batch.to[piece] + begin, static_cast<uint32_t>(bytes)};
}

__device__ inline uint32_t LastBits(const void* address) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address));
}

// The bytes before the first multiple of `alignment`, a power of two, that both addresses come to at once.
__device__ inline uint32_t BytesBefore(const Tile& tile, uint32_t alignment) {
  const uint32_t before = (0 - LastBits(tile.from)) % alignment;
  return before < tile.bytes ? before : tile.bytes;
}

// Words of the largest size for which both addresses allow it, and single bytes before and after.
template <typename Word>
__device__ inline void CopyWords(const Tile& tile) {
  constexpr uint32_t kWord = sizeof(Word);
  constexpr uint32_t kAtOnce = 4;  // that are read before the first is written
  const uint32_t thread = ThreadNumber();
  const uint32_t head = BytesBefore(tile, kWord);
  const uint32_t words = (tile.bytes - head) / kWord;
  const Word* from = reinterpret_cast<const Word*>(tile.from + head);
  Word* to = reinterpret_cast<Word*>(tile.to + head);
  for (uint32_t begin = thread; begin < words; begin += kAtOnce * kThreads) {
    Word held[kAtOnce];
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (begin + i * kThreads < words) held[i] = from[begin + i * kThreads];
    }
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (begin + i * kThreads < words) to[begin + i * kThreads] = held[i];
    }
  }
  if (thread < head) tile.to[thread] = tile.from[thread];
  const uint32_t end = head + words * kWord;
  if (thread < tile.bytes - end) tile.to[end + thread] = tile.from[end + thread];
}

typedef uint32_t Quad __attribute__((vector_size(16), may_alias));
typedef uint64_t Octet __attribute__((may_alias));
typedef uint32_t Quartet __attribute__((may_alias));
typedef uint16_t Pair __attribute__((may_alias));

__device__ inline void Copy(const Tile& tile) {
  const uint32_t apart = LastBits(tile.from) ^ LastBits(tile.to);
  if (apart % 16 == 0) return CopyWords<Quad>(tile);
  if (apart % 8 == 0) return CopyWords<Octet>(tile);
  if (apart % 4 == 0) return CopyWords<Quartet>(tile);
  if (apart % 2 == 0) return CopyWords<Pair>(tile);
  CopyWords<char>(tile);
}

// Element types: how the bits of an element are scaled. The arithmetic is that of worker/kernels, to the bit.

// Truncates towards zero; a value that does not fit becomes the nearest one that does.
template <typename Integer, typename Unsigned>
struct Integers {
  using Bits = Unsigned;
  using Factor = double;
  __device__ static Bits Scaled(Bits bits, Factor factor) {
    constexpr Integer kLeast = std::numeric_limits<Integer>::min();
    constexpr Integer kGreatest = std::numeric_limits<Integer>::max();
    // Half of it is exact in double for every width; twice that is one more than kGreatest.
    constexpr double kTooGreat = 2.0 * static_cast<double>(kGreatest / 2 + 1);
    const double product = static_cast<double>(static_cast<Integer>(bits)) * factor;
    if (product >= kTooGreat) return static_cast<Bits>(kGreatest);
    if (product <= static_cast<double>(kLeast)) return static_cast<Bits>(kLeast);
    return static_cast<Bits>(static_cast<Integer>(product));
  }
};

// Every NaN becomes the positive quiet one without payload.
template <typename Float, typename Unsigned, Unsigned kNan>
struct Floats {
  using Bits = Unsigned;
  using Factor = Float;
  __device__ static Bits Scaled(Bits bits, Factor factor) {
    const Float product = __builtin_bit_cast(Float, bits) * factor;
    return product != product ? kNan : __builtin_bit_cast(Bits, product);
  }
};
using Singles = Floats<float, uint32_t, 0x7fc00000u>;
using Doubles = Floats<double, uint64_t, 0x7ff8000000000000u>;

struct Halves {
  using Bits = uint16_t;
  using Factor = float;
  __device__ static float Widened(uint32_t bits) {
    const uint32_t sign = (bits & 0x8000) << 16;
    const uint32_t fraction = bits & 0x3ff;
    const uint32_t exponent = bits >> 10 & 31;
    uint32_t wide = (exponent + 112) << 23 | fraction << 13;
    if (exponent == 31) wide = 0x7f800000u | fraction << 13;
    if (exponent == 0) wide = __builtin_bit_cast(uint32_t, static_cast<float>(fraction) * 0x1p-24f);
    return __builtin_bit_cast(float, wide | sign);
  }
  __device__ static Bits Narrowed(uint32_t bits) {
    constexpr uint32_t kHalf = 126u << 23;
    const uint32_t magnitude = bits & 0x7fffffff;
    uint32_t narrow = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    if (magnitude < 113u << 23) {
      // Adding 0.5 leaves the subnormal's bits, rounded, at the lower end.
      const float sum = __builtin_bit_cast(float, magnitude) + __builtin_bit_cast(float, kHalf);
      narrow = __builtin_bit_cast(uint32_t, sum) - kHalf;
    }
    if (magnitude >= 143u << 23) narrow = 0x7c00;
    return static_cast<Bits>(narrow | (bits >> 16 & 0x8000));
  }
  __device__ static Bits Scaled(Bits bits, Factor factor) {
    const float product = Widened(bits) * factor;
    return product != product ? 0x7e00 : Narrowed(__builtin_bit_cast(uint32_t, product));
  }
};

struct UpperHalves {
  using Bits = uint16_t;
  using Factor = float;
  __device__ static Bits Scaled(Bits bits, Factor factor) {
    const float product = __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16) * factor;
    const uint32_t wide = __builtin_bit_cast(uint32_t, product);
    return product != product ? 0x7fc0 : static_cast<Bits>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  }
};

// Some elements as they are read and written at once: 16 bytes, or 4 elements of fewer.
template <typename Bits>
struct Group {
  static constexpr uint32_t kElements = sizeof(Bits) == 8 ? 2 : 4;
  typedef Bits Vector __attribute__((vector_size(kElements * sizeof(Bits)), may_alias));
};

// Written out, since in a loop that the compiler keeps the elements would have to lie in memory.
template <typename Elements, typename Vector>
__device__ inline Vector ScaledGroup(Vector group, typename Elements::Factor factor) {
  if constexpr (Group<typename Elements::Bits>::kElements == 2) {
    return Vector{Elements::Scaled(group[0], factor), Elements::Scaled(group[1], factor)};
  } else {
    return Vector{Elements::Scaled(group[0], factor), Elements::Scaled(group[1], factor),
                  Elements::Scaled(group[2], factor), Elements::Scaled(group[3], factor)};
  }
}

template <typename Elements>
__device__ inline void ScaleEach(const Tile& tile, uint32_t begin, uint32_t end, typename Elements::Factor factor) {
  using Bits = typename Elements::Bits;
  typedef Bits Aliased __attribute__((may_alias));
  const Aliased* from = reinterpret_cast<const Aliased*>(tile.from);
  Aliased* to = reinterpret_cast<Aliased*>(tile.to);
  for (uint32_t i = begin + ThreadNumber(); i < end; i += kThreads) to[i] = Elements::Scaled(from[i], factor);
}

// Elements lie at multiples of their size.
template <typename Elements>
__device__ inline void Scale(const Tile& tile, double wide_factor) {
  using Bits = typename Elements::Bits;
  using Vector = typename Group<Bits>::Vector;
  constexpr uint32_t kElements = Group<Bits>::kElements;
  const auto factor = static_cast<typename Elements::Factor>(wide_factor);
  const uint32_t count = tile.bytes / sizeof(Bits);
  const uint32_t apart = LastBits(tile.from) ^ LastBits(tile.to);
  const bool has_groups = apart % sizeof(Vector) == 0;
  const uint32_t head = has_groups ? BytesBefore(tile, sizeof(Vector)) / sizeof(Bits) : count;
  const uint32_t groups = (count - head) / kElements;
  const Vector* from = reinterpret_cast<const Vector*>(tile.from + head * sizeof(Bits));
  Vector* to = reinterpret_cast<Vector*>(tile.to + head * sizeof(Bits));
  for (uint32_t i = ThreadNumber(); i < groups; i += kThreads) to[i] = ScaledGroup<Elements>(from[i], factor);
  ScaleEach<Elements>(tile, 0, head, factor);
  ScaleEach<Elements>(tile, head + groups * kElements, count, factor);
}

}  // namespace

// One block for each tile. The factor and the type are not looked at.
extern "C" __global__ void __launch_bounds__(PieceBatch::kThreads) farandole_copy(PieceBatch batch) {
  Copy(OwnTile(batch));
}

// The same, if each element is multiplied by the factor, and rounded to the type.
extern "C" __global__ void __launch_bounds__(PieceBatch::kThreads) farandole_scale(PieceBatch batch) {
  const Tile tile = OwnTile(batch);
  switch (batch.type) {
    case PieceType::kU8:
      return Scale<Integers<uint8_t, uint8_t>>(tile, batch.factor);
    case PieceType::kI8:
      return Scale<Integers<int8_t, uint8_t>>(tile, batch.factor);
    case PieceType::kI32:
      return Scale<Integers<int32_t, uint32_t>>(tile, batch.factor);
    case PieceType::kI64:
      return Scale<Integers<int64_t, uint64_t>>(tile, batch.factor);
    case PieceType::kF16:
      return Scale<Halves>(tile, batch.factor);
    case PieceType::kBF16:
      return Scale<UpperHalves>(tile, batch.factor);
    case PieceType::kF32:
      return Scale<Singles>(tile, batch.factor);
    case PieceType::kF64:
      return Scale<Doubles>(tile, batch.factor);
  }
}

}  // namespace farandole
