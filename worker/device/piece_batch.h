#ifndef FARANDOLE_WORKER_DEVICE_PIECE_BATCH_H_
#define FARANDOLE_WORKER_DEVICE_PIECE_BATCH_H_

#include <cstdint>

namespace farandole {

// How the elements of a batch are scaled; the numbers are those of neither DType nor NCCL.
enum class PieceType : uint32_t { kU8, kI8, kI32, kI64, kF16, kBF16, kF32, kF64 };

// What a kernel of batch_kernel.cu is given: pieces of memory that do not overlap, but that one may be its own
// destination. It is passed by value, so that it needs no memory of the GPU: all that a kernel is given has 4 KiB at
// most before CUDA 12.1.
struct PieceBatch {
  static constexpr uint32_t kMostPieces = 144;
  // What a block is about is a tile, the same part of each piece: 16 bytes of each thread's, four times. A small piece
  // has one, a large one many, so that blocks have nearly equal work, and the GPU gives them out as others end.
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
