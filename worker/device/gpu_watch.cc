#include "worker/device/gpu_watch.h"

#include <utility>

#include "worker/clock.h"

namespace farandole {
namespace {

// Between two looks there may be thousands; whoever adds them forgets the oldest from here on.
constexpr size_t kMany = 64;

}  // namespace

void GpuWatch::Add(std::string label, std::shared_ptr<Gpu> gpu, std::vector<GpuEvent> ready, const GpuEvent& done) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // What is wrong with it is told to who looks.
  if (watched_.size() >= kMany) ForgetLocked().IgnoreError();
  watched_.push_back({std::move(label), std::move(gpu), std::move(ready), done, MonotonicNs()});
}

absl::Status GpuWatch::ForgetLocked() {
  while (!watched_.empty()) {
    const absl::StatusOr<bool> is_over = watched_.front().gpu->IsOver(watched_.front().done);
    if (!is_over.ok()) return is_over.status();
    if (!*is_over) break;
    watched_.pop_front();
  }
  return absl::OkStatus();
}

absl::StatusOr<GpuWatch::Late> GpuWatch::Look(int64_t now_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Status status = ForgetLocked(); !status.ok()) return status;
  Late late;
  if (watched_.empty()) return late;
  const Watched& oldest = watched_.front();
  late.label = oldest.label;
  late.age_ns = now_ns - oldest.enqueued_ns;
  late.is_computed = true;
  for (const GpuEvent& event : oldest.ready) {
    const absl::StatusOr<bool> is_there = oldest.gpu->IsOver(event);
    if (!is_there.ok()) return is_there.status();
    late.is_computed = late.is_computed && *is_there;
  }
  return late;
}

}  // namespace farandole
