#ifndef FARANDOLE_WORKER_KERNELS_ADASUM_H_
#define FARANDOLE_WORKER_KERNELS_ADASUM_H_

#include <cstdint>

#include "base/dtype.h"

namespace farandole {

// Adasum of two ranks' tensors a and b (Maleki et al., "Scaling Distributed
// Training with Adaptive Summation", 2021):
//
//   (1 - a.b / (2 a.a)) a + (1 - a.b / (2 b.b)) b
//
// which is their sum where they are orthogonal and their average where they are
// parallel. If one tensor is zero, the result is the other one. Needs the products of whole
// tensors, so it takes two passes.
//
// As in reduce.h, results depend only on the arguments, to the bit. Products
// are computed and added in float64; the combination in float32 (float64 for
// float64), rounded once. dtype: a floating type.
struct AdasumProducts {
  double ab = 0.0;
  double aa = 0.0;
  double bb = 0.0;
};

// A caller that passes a tensor in parts passes multiples of this many elements, except for the last part: the order of
// additions is then the same for all parts.
constexpr int64_t kAdasumBlock = 512;

// Adds the products of `count` further elements.
void AddAdasumProducts(DType dtype, const void* a, const void* b, int64_t count, AdasumProducts* products);

// output[i] = postscale * the combination of a[i] and b[i]. `output` may be
// exactly `a` or `b`, else overlaps neither.
void CombineAdasum(DType dtype, const AdasumProducts& products, const void* a, const void* b, void* output,
                   int64_t count, double postscale);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_ADASUM_H_
