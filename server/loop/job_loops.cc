#include "server/loop/job_loops.h"

#include <future>
#include <memory>

#include "absl/hash/hash.h"

namespace farandole {

JobLoops::JobLoops(size_t count, const JobLoopOptions& options, const JobLoopDependencies& dependencies) {
  loops_.reserve(count);
  for (size_t i = 0; i < count; ++i) loops_.push_back(std::make_unique<JobLoop>(options, dependencies));
}

JobLoop& JobLoops::LoopOf(const JobKey& key) { return *loops_[absl::Hash<JobKey>()(key) % loops_.size()]; }

void JobLoops::Restore(absl::Span<const JobKey> keys) {
  std::vector<std::future<void>> restored;
  for (const JobKey& key : keys) {
    auto done = std::make_shared<std::promise<void>>();
    restored.push_back(done->get_future());
    LoopOf(key).Restore(key, [done](const absl::Status&) { done->set_value(); });
  }
  for (std::future<void>& one : restored) one.wait();
}

void JobLoops::Stop() {
  for (const std::unique_ptr<JobLoop>& loop : loops_) loop->Stop();
}

size_t JobLoops::mailbox_depth() const {
  size_t depth = 0;
  for (const std::unique_ptr<JobLoop>& loop : loops_) depth += loop->mailbox_depth();
  return depth;
}

}  // namespace farandole
