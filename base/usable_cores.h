#ifndef FARANDOLE_BASE_USABLE_CORES_H_
#define FARANDOLE_BASE_USABLE_CORES_H_

#include <sched.h>

namespace farandole {

// Processor cores that this process may run on, at least 1.
inline int UsableCores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace farandole

#endif  // FARANDOLE_BASE_USABLE_CORES_H_
