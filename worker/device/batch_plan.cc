#include "worker/device/batch_plan.h"

#include "base/check.h"

namespace farandole {

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
  switch (dtype) {
    case DType::kU8:
    case DType::kBool:
      return PieceType::kU8;
    case DType::kI8:
      return PieceType::kI8;
    case DType::kI32:
      return PieceType::kI32;
    case DType::kI64:
      return PieceType::kI64;
    case DType::kF16:
      return PieceType::kF16;
    case DType::kBF16:
      return PieceType::kBF16;
    case DType::kF32:
      return PieceType::kF32;
    case DType::kF64:
      return PieceType::kF64;
    case DType::kI16:
    case DType::kU16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      break;
  }
  FD_CHECK(false) << "nothing scales element type " << static_cast<int>(dtype);
  return PieceType::kU8;
}

}  // namespace farandole
