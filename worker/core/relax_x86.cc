#include "worker/core/relax.h"

namespace farandole {

void Relax() { __builtin_ia32_pause(); }

}  // namespace farandole
