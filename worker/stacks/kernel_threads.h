#ifndef FARANDOLE_WORKER_STACKS_KERNEL_THREADS_H_
#define FARANDOLE_WORKER_STACKS_KERNEL_THREADS_H_

#include <vector>

#include "farandole/v1/flight.pb.h"

namespace farandole {

// This process's threads as the kernel knows them, the main thread first; at most 256. It stops none of them.
std::vector<v1::KernelThread> ReadKernelThreads();

}  // namespace farandole

#endif  // FARANDOLE_WORKER_STACKS_KERNEL_THREADS_H_
