#ifndef FARANDOLE_WORKER_ENGINE_RUNNING_BATCH_H_
#define FARANDOLE_WORKER_ENGINE_RUNNING_BATCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "worker/core/collective.h"
#include "worker/device/gpu_batch.h"
#include "worker/engine/submissions/submission.h"

namespace farandole {

// The batch that a rank is in. Owned by its Engine, and part of the engine's role. The spans of `collective` point into
// the other members.
struct RunningBatch {
  Collective collective;
  std::vector<int> ranks;
  std::vector<int64_t> counts;
  // Alltoall: while ranks tell each other how many rows they get, `exchanges_rows`; then those rows are moved.
  bool exchanges_rows = false;
  std::vector<int64_t> sent_counts;
  std::vector<int64_t> sent_rows;
  std::vector<int64_t> received_rows;
  absl::InlinedVector<Fragment, 2> fragments;
  // In the order of the entry's items.
  absl::InlinedVector<Submission*, 2> submissions;
  // Of tensors in a GPU.
  GpuBatch gpu_batch;
  std::unique_ptr<Operation> operation;
  int64_t started_ns = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_RUNNING_BATCH_H_
