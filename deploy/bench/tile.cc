#include "deploy/bench/tile.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace farandole::bench {
namespace {

// A prime, so that neither chunks nor shares of a collective begin at the same number again and again.
constexpr size_t kPeriod = 251;
// Copied at once: 64 KiB of float32 stay in the cache beside the buffer.
constexpr size_t kRun = kPeriod * 64;
constexpr int kMostValue = 3;

// The largest sum up to which every whole number is exact, or a number that no sum reaches.
int64_t ExactLimit(DType dtype) {
  constexpr int kMostBits = 15;
  const DTypeTraits& traits = TraitsOf(dtype);
  const int bits = 8 * static_cast<int>(traits.size);
  switch (traits.kind) {
    case DTypeTraits::Kind::kBool:
      return 1;
    case DTypeTraits::Kind::kUnsigned:
      return (int64_t{1} << std::min(bits, kMostBits)) - 1;
    case DTypeTraits::Kind::kSigned:
      return (int64_t{1} << std::min(bits - 1, kMostBits)) - 1;
    case DTypeTraits::Kind::kFloating:
      break;
  }
  return int64_t{1} << std::min(traits.mantissa_bits + 1, kMostBits);
}

// From 0 to kMostValue; so many ranks that the sum would not be exact contribute zeros.
int Value(DType dtype, int rank, int size, size_t position) {
  const int64_t limit = ExactLimit(dtype);
  if (rank >= limit) return 0;
  const auto most = static_cast<size_t>(std::clamp<int64_t>(limit / size, 1, kMostValue));
  return static_cast<int>((position + static_cast<size_t>(rank)) % kPeriod % (most + 1));
}

// The bits of a small whole number, which is exact in the type.
uint64_t BitsOf(DType dtype, int64_t value) {
  const DTypeTraits& traits = TraitsOf(dtype);
  if (traits.kind != DTypeTraits::Kind::kFloating || value == 0) return static_cast<uint64_t>(value);
  constexpr int kMantissa = 52;
  constexpr uint64_t kBias = 1023;
  const auto number = static_cast<double>(value);
  uint64_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  const uint64_t exponent = (bits >> kMantissa) - kBias + (uint64_t{1} << (traits.exponent_bits - 1)) - 1;
  const uint64_t mantissa = bits & ((uint64_t{1} << kMantissa) - 1);
  return exponent << traits.mantissa_bits | mantissa >> (kMantissa - traits.mantissa_bits);
}

void AppendElement(DType dtype, int64_t value, std::string* bytes) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low bytes come first");
  const uint64_t bits = BitsOf(dtype, value);
  bytes->append(reinterpret_cast<const char*>(&bits), SizeOf(dtype));
}

int64_t Reduce(DType dtype, ReduceOp op, int size, size_t position) {
  int64_t result = Value(dtype, 0, size, position);
  for (int rank = 1; rank < size; ++rank) {
    const int64_t value = Value(dtype, rank, size, position);
    if (op == ReduceOp::kMin) {
      result = std::min(result, value);
    } else if (op == ReduceOp::kMax || dtype == DType::kBool) {
      result = std::max(result, value);
    } else {
      result += value;
    }
  }
  return result;
}

}  // namespace

Tile Tile::OfRank(DType dtype, int rank, int size) {
  Tile tile(SizeOf(dtype));
  for (size_t i = 0; i < kRun + kPeriod; ++i) AppendElement(dtype, Value(dtype, rank, size, i), &tile.bytes_);
  return tile;
}

Tile Tile::Reduced(DType dtype, ReduceOp op, int size) {
  FD_CHECK(op == ReduceOp::kSum || op == ReduceOp::kMin || op == ReduceOp::kMax) << Name(op);
  Tile tile(SizeOf(dtype));
  std::string period;
  for (size_t i = 0; i < kPeriod; ++i) AppendElement(dtype, Reduce(dtype, op, size, i), &period);
  while (tile.bytes_.size() < (kRun + kPeriod) * tile.element_bytes_) tile.bytes_ += period;
  return tile;
}

const char* Tile::Start(uint64_t turn) const { return bytes_.data() + turn % kPeriod * element_bytes_; }

void Tile::Fill(void* out, size_t count, uint64_t turn) const {
  for (size_t done = 0; done < count; done += kRun) {
    std::memcpy(static_cast<char*>(out) + done * element_bytes_, Start(turn),
                std::min(kRun, count - done) * element_bytes_);
  }
}

size_t Tile::CountWrong(const void* found, size_t count, uint64_t turn) const {
  size_t wrong = 0;
  for (size_t done = 0; done < count; done += kRun) {
    const char* run = static_cast<const char*>(found) + done * element_bytes_;
    const size_t elements = std::min(kRun, count - done);
    if (std::memcmp(run, Start(turn), elements * element_bytes_) == 0) continue;
    for (size_t i = 0; i < elements; ++i) {
      const size_t at = i * element_bytes_;
      wrong += std::memcmp(run + at, Start(turn) + at, element_bytes_) != 0 ? 1 : 0;
    }
  }
  return wrong;
}

}  // namespace farandole::bench
