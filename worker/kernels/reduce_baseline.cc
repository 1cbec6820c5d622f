#include "worker/kernels/kernel_table.h"
#include "worker/kernels/vector_kernels.h"

namespace farandole {
namespace {

// 16 bytes: SSE2 on x86-64, NEON on 64-bit ARM.
struct BaselineLevel : PortableHalf<16>, PortablePartial {
  static constexpr int kBytes = 16;
};

constexpr KernelTable kBaselineKernels = MakeTable<BaselineLevel>("baseline");

}  // namespace

const KernelTable& BaselineKernels() { return kBaselineKernels; }

}  // namespace farandole
