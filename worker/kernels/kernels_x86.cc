#include <vector>

#include "worker/kernels/kernel_table.h"

namespace farandole {

std::vector<const KernelTable*> SupportedKernels() {
  std::vector<const KernelTable*> tables;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    tables.push_back(&Avx512Kernels());
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) {
    tables.push_back(&Avx2Kernels());
  }
  tables.push_back(&BaselineKernels());
  return tables;
}

const KernelTable& ChosenKernels() {
  static const KernelTable& chosen = *SupportedKernels().front();
  return chosen;
}

}  // namespace farandole
