#include "worker/device/batch_plan.h"

#include <iterator>
#include <optional>

#include "base/check.h"

namespace farandole {
namespace {

// In the order of DType's numbers; nullopt: NCCL does not reduce the type, or the kernels do not scale it.
constexpr std::optional<PieceType> kPieceTypes[] = {
    PieceType::kU8,  PieceType::kI8,   std::nullopt,    PieceType::kI32, PieceType::kI64,
    PieceType::kF16, PieceType::kBF16, PieceType::kF32, PieceType::kF64, PieceType::kU8,
    std::nullopt,    std::nullopt,     std::nullopt,
};
static_assert(std::size(kPieceTypes) == kDTypeCount, "each element type has its row");

}  // namespace

std::vector<PieceBatch> PlanPieces(absl::Span<const GpuCopy> copies, PieceType type, double factor) {
  std::vector<PieceBatch> batches;
  uint32_t tiles = 0;
  for (const GpuCopy& copy : copies) {
    if (copy.bytes == 0) continue;
    if (batches.empty() || batches.back().count == PieceBatch::kMostPieces) {
      batches.emplace_back();
      batches.back().type = type;
      batches.back().factor = factor;
      tiles = 0;
    }
    PieceBatch& batch = batches.back();
    tiles += static_cast<uint32_t>((copy.bytes - 1) / PieceBatch::kTileBytes + 1);
    batch.end_tile[batch.count] = tiles;
    batch.from[batch.count] = static_cast<const char*>(copy.from);
    batch.to[batch.count] = static_cast<char*>(copy.to);
    batch.bytes[batch.count] = copy.bytes;
    ++batch.count;
  }
  return batches;
}

PieceType PieceTypeOf(DType dtype) {
  const std::optional<PieceType> type = kPieceTypes[static_cast<int>(dtype)];
  FD_CHECK(type.has_value()) << "nothing scales element type " << Name(dtype);
  return *type;
}

}  // namespace farandole
