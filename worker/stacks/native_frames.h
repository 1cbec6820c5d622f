#ifndef FARANDOLE_WORKER_STACKS_NATIVE_FRAMES_H_
#define FARANDOLE_WORKER_STACKS_NATIVE_FRAMES_H_

#include <cstdint>

#include "farandole/v1/flight.pb.h"

namespace farandole {

// Adds the native stacks of the process `pid` to the evidence, whose threads have the stacks that its language has
// told. A thread of Python gets the calls that its innermost line has made; the interpreter's own calls are left out.
// Other threads follow, the main thread first, and one for all that have the same functions. At most 64 threads, and 64
// KiB of native frames. Pure.
void AddNativeStacks(const v1::NativeStacks& native, uint32_t pid, v1::Evidence* evidence);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_STACKS_NATIVE_FRAMES_H_
