#ifndef FARANDOLE_WORKER_DEVICE_GPU_BATCH_H_
#define FARANDOLE_WORKER_DEVICE_GPU_BATCH_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/container/inlined_vector.h"
#include "worker/device/gpu.h"

namespace farandole {

// The additional fields of a collective of tensors in a GPU's memory.
struct GpuBatch {
  // Names the batch in the log if it hangs: "'x' and 3 others".
  std::string label;
  // Null where the rank has joined, and so has no tensors.
  std::shared_ptr<Gpu> gpu;
  // It may have several tensors, on all ranks alike, also on one that has joined.
  bool is_fused = false;
  // It is captured in a CUDA graph, on all ranks, and runs when the graph does.
  bool is_captured = false;
  // When inputs are there, and outputs may be written.
  absl::InlinedVector<GpuEvent, 2> ready;
  // The size of the result of an allgather or alltoall whose output is not given, and its memory when the operation is
  // complete.
  size_t result_bytes = 0;
  GpuMemory result;
  // Set by the operation when it is complete, which says only that all is enqueued: the outputs are written, and the
  // inputs not read any more, from this point on.
  GpuEvent done;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_GPU_BATCH_H_
