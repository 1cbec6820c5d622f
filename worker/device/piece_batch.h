#ifndef FARANDOLE_WORKER_DEVICE_PIECE_BATCH_H_
#define FARANDOLE_WORKER_DEVICE_PIECE_BATCH_H_

#include <cstdint>

namespace farandole {

// How the elements of a batch are scaled; the numbers are those of neither DType nor NCCL.
enum class PieceType : uint32_t { kU8, kI8, kI32, kI64, kF16, kBF16, kF32, kF64 };

// The argument of a kernel of batch_kernel.cu: pieces of memory that do not overlap, except that one may be its own
// destination. It is passed by value, so that it needs no memory of the GPU: a kernel's arguments have at most 4 KiB
// before CUDA 12.1.
struct PieceBatch {
  static constexpr uint32_t kMostPieces = 144;
  // A block has one tile: so much of a piece, 16 bytes for each thread, four times, or the rest of the piece. However
  // uneven the pieces are, no block has more than others, and the GPU gives out the next where one ends.
  static constexpr uint32_t kThreads = 256;
  static constexpr uint64_t kTileBytes = 16 * 4 * kThreads;

  uint32_t count = 0;
  PieceType type = PieceType::kU8;
  double factor = 1.0;
  // Tiles of this piece and all before. The last is how many blocks there are.
  uint32_t end_tile[kMostPieces];
  const char* from[kMostPieces];
  char* to[kMostPieces];
  uint64_t bytes[kMostPieces];  // at least 1
};
static_assert(sizeof(PieceBatch) <= 4096, "the parameters of a kernel");

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_PIECE_BATCH_H_
