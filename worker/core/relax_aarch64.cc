#include "worker/core/relax.h"

namespace farandole {

// YIELD does nothing on most of these processors; ISB has them wait until what they have begun is done.
void Relax() { asm volatile("isb" ::: "memory"); }

}  // namespace farandole
