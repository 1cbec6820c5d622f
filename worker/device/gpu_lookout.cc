#include "worker/device/gpu_lookout.h"

#include <system_error>
#include <utility>

#include "base/quiet_thread.h"

namespace farandole {

GpuLookout::GpuLookout(Look look) : look_(std::move(look)) {
  try {
    thread_ = QuietThread([this] { Run(); });
  } catch (const std::system_error&) {
    // No more threads here: the caller looks itself.
  }
}

GpuLookout::~GpuLookout() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

GpuLookout::Answer GpuLookout::Ask(int64_t now_ns) {
  if (!thread_.joinable()) return {look_(now_ns), 0};
  const std::lock_guard<std::mutex> lock(mutex_);
  if (asked_ns_.has_value()) return {std::nullopt, now_ns - *asked_ns_};
  asked_ns_ = now_ns;
  changed_.notify_all();
  return {last_, 0};
}

void GpuLookout::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_stopping_ || asked_ns_.has_value(); });
    if (is_stopping_) return;
    const int64_t now_ns = *asked_ns_;
    lock.unlock();
    absl::StatusOr<GpuWatch::Late> late = look_(now_ns);
    lock.lock();
    last_ = std::move(late);
    asked_ns_.reset();
  }
}

}  // namespace farandole
