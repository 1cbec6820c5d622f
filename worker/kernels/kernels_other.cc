#include <vector>

#include "worker/kernels/kernel_table.h"

namespace farandole {

std::vector<const KernelTable*> SupportedKernels() { return {&BaselineKernels()}; }

const KernelTable& ChosenKernels() { return BaselineKernels(); }

}  // namespace farandole
