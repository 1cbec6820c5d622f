#ifndef FARANDOLE_WORKER_KERNELS_KERNEL_TABLE_H_
#define FARANDOLE_WORKER_KERNELS_KERNEL_TABLE_H_

#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace farandole {

// One reduction as a kernel sees it. Borrows everything. Included by files that
// are compiled for newer processors, so it holds plain data and no functions.
struct ReduceCall {
  const void* const* inputs;  // input_count pointers to count elements each
  int64_t input_count;        // at least 1
  const double* scales;       // one factor per input, or null for none
  void* output;               // may be one of the inputs
  int64_t count;
  int64_t divisor;   // divides the combined value; 0 for none
  double postscale;  // multiplies last; 1.0 for none
};

// How a kernel combines two values; indexes the row of a dtype.
enum CombineKind : int { kAdd = 0, kMinimum, kMaximum, kMultiply };
inline constexpr int kCombineKinds = 4;

// The kernels for one set of processor instructions. All tables give the same
// bits for the same call. Immutable and static.
struct KernelTable {
  const char* name;
  void (*reduce[kDTypeCount][kCombineKinds])(const ReduceCall& call);
  void (*f16_to_f32)(const uint16_t* from, float* to, int64_t count);
  void (*f32_to_f16)(const float* from, uint16_t* to, int64_t count);
  void (*bf16_to_f32)(const uint16_t* from, float* to, int64_t count);
  void (*f32_to_bf16)(const float* from, uint16_t* to, int64_t count);
  void (*e4m3_to_f32)(const uint8_t* from, float* to, int64_t count);
  void (*f32_to_e4m3)(const float* from, uint8_t* to, int64_t count);
  void (*e5m2_to_f32)(const uint8_t* from, float* to, int64_t count);
  void (*f32_to_e5m2)(const float* from, uint8_t* to, int64_t count);
};

// Runs on every processor that the build targets.
const KernelTable& BaselineKernels();
// Only on x86-64 with AVX2 and F16C.
const KernelTable& Avx2Kernels();
// Only on x86-64 with AVX-512 F, BW, DQ and VL.
const KernelTable& Avx512Kernels();

// The tables that this processor can run, fastest first; never empty.
std::vector<const KernelTable*> SupportedKernels();

// The first of SupportedKernels(), chosen once for the process. Any thread.
const KernelTable& ChosenKernels();

}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_KERNEL_TABLE_H_
