#include <cpuid.h>

#include <vector>

#include "worker/kernels/kernel_table.h"

namespace farandole {
namespace {

// Clang 14's __builtin_cpu_supports does not know it. If the operating system supports AVX2, it supports this too.
bool HasF16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace

std::vector<const KernelTable*> SupportedKernels() {
  std::vector<const KernelTable*> tables;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    tables.push_back(&Avx512Kernels());
  }
  if (__builtin_cpu_supports("avx2") && HasF16c()) {
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
