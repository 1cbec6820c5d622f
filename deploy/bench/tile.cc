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

// The largest sum up to which every whole number is exact.
int64_t ExactLimit(DType dtype) {
  switch (dtype) {
    case DType::kI8:
      return 127;
    case DType::kU8:
      return 255;
    case DType::kF8E5M2:
      return 8;
    case DType::kF8E4M3:
      return 16;
    case DType::kBF16:
      return 256;
    case DType::kF16:
      return 2048;
    case DType::kBool:
      return 1;
    default:
      return 1 << 15;
  }
}

// From 0 to kMostValue; so many ranks that the sum would not be exact contribute zeros.
int Value(DType dtype, int rank, int size, size_t position) {
  const int64_t limit = ExactLimit(dtype);
  if (rank >= limit) return 0;
  const auto most = static_cast<size_t>(std::clamp<int64_t>(limit / size, 1, kMostValue));
  return static_cast<int>((position + static_cast<size_t>(rank)) % kPeriod % (most + 1));
}

template <typename Number>
void Append(Number number, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// The bits of a small whole number, which is exact in the type: a sign, exponent_bits, and mantissa_bits.
uint16_t ShortFloat(int64_t value, int exponent_bits, int mantissa_bits) {
  const auto number = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  if (bits == 0) return 0;
  const uint32_t exponent = (bits >> 23) - 127 + (1u << (exponent_bits - 1)) - 1;
  return static_cast<uint16_t>(exponent << mantissa_bits | (bits & 0x7fffff) >> (23 - mantissa_bits));
}

void AppendElement(DType dtype, int64_t value, std::string* bytes) {
  switch (dtype) {
    case DType::kU8:
    case DType::kI8:
    case DType::kBool:
      return Append(static_cast<uint8_t>(value), bytes);
    case DType::kI16:
    case DType::kU16:
      return Append(static_cast<uint16_t>(value), bytes);
    case DType::kI32:
      return Append(static_cast<int32_t>(value), bytes);
    case DType::kI64:
      return Append(value, bytes);
    case DType::kF16:
      return Append(ShortFloat(value, 5, 10), bytes);
    case DType::kBF16:
      return Append(ShortFloat(value, 8, 7), bytes);
    case DType::kF8E4M3:
      return Append(static_cast<uint8_t>(ShortFloat(value, 4, 3)), bytes);
    case DType::kF8E5M2:
      return Append(static_cast<uint8_t>(ShortFloat(value, 5, 2)), bytes);
    case DType::kF32:
      return Append(static_cast<float>(value), bytes);
    case DType::kF64:
      return Append(static_cast<double>(value), bytes);
  }
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
