#include "worker/engine/submissions/book/handle_pool.h"

#include <algorithm>

#include "absl/status/status.h"

namespace farandole {

Submission* HandlePool::Allocate() {
  if (free_.empty()) {
    submissions_.emplace_back();
    submissions_.back().handle = first_handles_ + static_cast<int64_t>(submissions_.size());
    free_.push_back(&submissions_.back());
  }
  Submission* submission = free_.back();
  free_.pop_back();
  submission->in_use = true;
  last_handle_ = std::max(last_handle_, submission->handle);
  return submission;
}

void HandlePool::Recycle(Submission* submission) {
  submission->handle += int64_t{1} << kIndexBits;
  submission->fragments.clear();
  submission->dims.clear();
  submission->ndims.clear();
  submission->members.clear();
  submission->splits.clear();
  submission->result.reset();
  if (submission->gpu != nullptr) {
    dropped_.push_back({std::exchange(submission->gpu, nullptr), std::move(submission->gpu_result),
                        std::exchange(submission->ready, GpuEvent()), std::exchange(submission->done, GpuEvent())});
  }
  submission->result_bytes = 0;
  submission->rows_by_position.clear();
  submission->in_use = false;
  submission->slot = 0;
  submission->started_ns = 0;
  submission->profiler_range = 0;
  submission->running = false;
  submission->released = false;
  submission->waiters = 0;
  submission->complete.store(false, std::memory_order_relaxed);  // no thread looks at it any more
  submission->status = absl::OkStatus();
  free_.push_back(submission);
}

void HandlePool::Park(Submission* submission) {
  submission->handle += int64_t{1} << kIndexBits;
  submission->in_use = false;
  submission->slot = 0;
  submission->started_ns = 0;
  submission->profiler_range = 0;
  submission->released = false;
}

void HandlePool::Reuse(Submission* submission) {
  submission->in_use = true;
  last_handle_ = std::max(last_handle_, submission->handle);
}

Submission* HandlePool::Find(int64_t handle) const {
  const int64_t index = handle & ((int64_t{1} << kIndexBits) - 1);
  if (index < 1 || index > static_cast<int64_t>(submissions_.size())) return nullptr;
  const Submission* submission = &submissions_[index - 1];
  if (submission->handle != handle || !submission->in_use || submission->released) return nullptr;
  return const_cast<Submission*>(submission);
}

}  // namespace farandole
