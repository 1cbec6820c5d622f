#include "worker/kernels/adasum.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "worker/kernels/float8.h"
#include "worker/kernels/float_environment.h"
#include "worker/kernels/half.h"
#include "worker/kernels/reduce.h"

namespace farandole {
namespace {

// Sums that do not wait for each other.
constexpr int kLanes = 8;

template <typename Real>
void AddBlock(const Real* a, const Real* b, int64_t count, AdasumProducts* products) {
  double ab[kLanes] = {}, aa[kLanes] = {}, bb[kLanes] = {};
  for (int64_t i = 0; i < count; i += kLanes) {
    const int lanes = static_cast<int>(std::min<int64_t>(kLanes, count - i));
    for (int lane = 0; lane < lanes; ++lane) {
      const double x = a[i + lane], y = b[i + lane];
      ab[lane] += x * y;
      aa[lane] += x * x;
      bb[lane] += y * y;
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    products->ab += ab[lane];
    products->aa += aa[lane];
    products->bb += bb[lane];
  }
}

// The elements of a block as numbers to compute with, which `block` has room for where they are of another type.
template <typename Real>
const Real* Read(DType dtype, const void* elements, int64_t first, int64_t count, Real* block) {
  const char* at = static_cast<const char*>(elements) + first * static_cast<int64_t>(SizeOf(dtype));
  if constexpr (sizeof(Real) == sizeof(float)) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(at);
    if (dtype == DType::kF8E4M3) return E4M3ToF32(bytes, block, count), block;
    if (dtype == DType::kF8E5M2) return E5M2ToF32(bytes, block, count), block;
    uint16_t halves[kAdasumBlock];
    if (dtype != DType::kF32) std::memcpy(halves, at, count * sizeof(uint16_t));
    if (dtype == DType::kF16) return F16ToF32(halves, block, count), block;
    if (dtype == DType::kBF16) return BF16ToF32(halves, block, count), block;
  }
  FD_CHECK(SizeOf(dtype) == sizeof(Real));
  // No alignment is required.
  std::memcpy(block, at, count * sizeof(Real));
  return block;
}

template <typename Real>
void AddAll(DType dtype, const void* a, const void* b, int64_t count, AdasumProducts* products) {
  Real left[kAdasumBlock], right[kAdasumBlock];
  for (int64_t first = 0; first < count; first += kAdasumBlock) {
    const int64_t block = std::min(kAdasumBlock, count - first);
    AddBlock(Read(dtype, a, first, block, left), Read(dtype, b, first, block, right), block, products);
  }
}

double Factor(double product, double square, double postscale) {
  return (square > 0.0 ? 1.0 - product / (2.0 * square) : 1.0) * postscale;
}

}  // namespace

void AddAdasumProducts(DType dtype, const void* a, const void* b, int64_t count, AdasumProducts* products) {
  FD_CHECK(IsFloating(dtype)) << "adasum of integers";
  const FloatEnvironment environment;
  if (dtype == DType::kF64) return AddAll<double>(dtype, a, b, count, products);
  AddAll<float>(dtype, a, b, count, products);
}

void CombineAdasum(DType dtype, const AdasumProducts& products, const void* a, const void* b, void* output,
                   int64_t count, double postscale) {
  const void* const inputs[] = {a, b};
  const double factors[] = {Factor(products.ab, products.aa, postscale), Factor(products.ab, products.bb, postscale)};
  Reduce(dtype, ReduceOp::kSum, inputs, factors, output, count, 1.0, 1);
}

}  // namespace farandole
