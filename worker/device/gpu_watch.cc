#include "worker/device/gpu_watch.h"

#include <utility>

#include "worker/core/clock.h"

namespace farandole {
namespace {

// Between two looks there may be thousands; the adding thread forgets the oldest from here on.
constexpr size_t kMany = 64;
// CUDA counts the time between two events as a float of milliseconds: after a minute it is as exact as 4 us.
constexpr int64_t kAnchorAgeNs = 60'000'000'000;

}  // namespace

absl::StatusOr<GpuEvent> GpuWatch::Begin(Gpu& gpu, CudaStream stream) {
  if (recorder_.is_on == nullptr || !recorder_.is_on()) return GpuEvent();
  if (!anchor_.is_set() || MonotonicNs() - anchor_ns_ > kAnchorAgeNs) {
    absl::StatusOr<GpuEvent> anchor = gpu.RecordTimed(gpu.idle_stream());
    if (!anchor.ok()) return anchor;
    if (absl::Status status = gpu.Await(*anchor); !status.ok()) return status;
    anchor_ = *std::move(anchor);
    anchor_ns_ = MonotonicNs();
  }
  return gpu.RecordTimed(stream);
}

void GpuWatch::Add(Enqueued enqueued) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::deque<Watched>& watched = watched_[enqueued.stream];
  // Look() reports a failure of the GPU.
  if (watched.size() >= kMany) ForgetLocked(&watched).IgnoreError();
  watched.push_back({std::move(enqueued), MonotonicNs(), anchor_, anchor_ns_});
}

absl::Status GpuWatch::RecordTime(const Watched& over) const {
  if (!over.begun.is_set()) return absl::OkStatus();
  const absl::StatusOr<int64_t> from = over.gpu->TimeBetween(over.anchor, over.begun);
  const absl::StatusOr<int64_t> took = over.gpu->TimeBetween(over.begun, over.done);
  if (!from.ok()) return from.status();
  if (!took.ok()) return took.status();
  recorder_.add(over.label, over.anchor_ns + *from, over.anchor_ns + *from + *took);
  return absl::OkStatus();
}

absl::Status GpuWatch::ForgetLocked(std::deque<Watched>* watched) const {
  while (!watched->empty()) {
    const absl::StatusOr<bool> is_over = watched->front().gpu->IsOver(watched->front().done);
    if (!is_over.ok()) return is_over.status();
    if (!*is_over) break;
    if (absl::Status recorded = RecordTime(watched->front()); !recorded.ok()) return recorded;
    watched->pop_front();
  }
  return absl::OkStatus();
}

absl::StatusOr<GpuWatch::Late> GpuWatch::Look(int64_t now_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Watched* oldest = nullptr;
  for (auto& [stream, watched] : watched_) {
    if (absl::Status status = ForgetLocked(&watched); !status.ok()) return status;
    if (watched.empty() || (oldest != nullptr && oldest->enqueued_ns <= watched.front().enqueued_ns)) continue;
    oldest = &watched.front();
  }
  Late late;
  if (oldest == nullptr) return late;
  late.label = oldest->label;
  late.is_first = oldest->is_first;
  late.age_ns = now_ns - oldest->enqueued_ns;
  late.is_computed = true;
  for (const GpuEvent& event : oldest->ready) {
    const absl::StatusOr<bool> is_there = oldest->gpu->IsOver(event);
    if (!is_there.ok()) return is_there.status();
    late.is_computed = late.is_computed && *is_there;
  }
  return late;
}

}  // namespace farandole
