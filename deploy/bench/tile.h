#ifndef FARANDOLE_DEPLOY_BENCH_TILE_H_
#define FARANDOLE_DEPLOY_BENCH_TILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/dtype.h"

namespace farandole::bench {

// Contents of buffers, repeating every few elements: a rank's contribution, and the expected result of an operation on
// all ranks' contributions. The numbers are whole and so small that each type holds every result exactly, so a result
// is right if it is equal to the bit.
//
// `turn` shifts the contents, so that no operation finds its own earlier result. Ranks and `size` as of an epoch.
class Tile {
 public:
  // The contribution of `rank` of `size`.
  static Tile OfRank(DType dtype, int rank, int size);
  // The reduction of all ranks' contributions. `op` is kSum, kMin or kMax.
  static Tile Reduced(DType dtype, ReduceOp op, int size);

  // Writes `count` elements to `out`.
  void Fill(void* out, size_t count, uint64_t turn) const;
  // How many of the `count` elements at `found` differ from those that Fill writes. Those of `turn` + n are those of
  // `turn` from the element n on.
  size_t CountWrong(const void* found, size_t count, uint64_t turn) const;

 private:
  explicit Tile(size_t element_bytes) : element_bytes_(element_bytes) {}

  // Where the contents of a turn begin.
  const char* Start(uint64_t turn) const;

  size_t element_bytes_;
  std::string bytes_;
};

}  // namespace farandole::bench

#endif  // FARANDOLE_DEPLOY_BENCH_TILE_H_
