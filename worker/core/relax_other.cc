#include "worker/core/relax.h"

namespace farandole {

void Relax() { asm volatile("" ::: "memory"); }

}  // namespace farandole
