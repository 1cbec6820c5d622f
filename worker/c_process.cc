#include "worker/c_process.h"

#include <pthread.h>

#include <utility>

namespace farandole {

CProcess& Process() {
  static CProcess* const process = new CProcess();
  return *process;
}

CProcess::CProcess() {
  static CProcess* self = nullptr;
  self = this;
  // A forked data loader has none of the library's threads: it must not touch it.
  pthread_atfork(nullptr, nullptr, [] { self->is_forked_child_.store(true); });
}

absl::Status CProcess::Start(WorkerOptions options, const Interrupted& interrupted) {
  std::lock_guard<std::mutex> life(life_);
  if (worker_ != nullptr) return absl::FailedPreconditionError("farandole is initialized already; shut it down first");
  absl::StatusOr<std::unique_ptr<Worker>> started = Worker::Start(std::move(options), interrupted);
  if (!started.ok()) return started.status();
  std::unique_lock<std::shared_mutex> lock(mutex_);
  worker_ = *std::move(started);
  return absl::OkStatus();
}

absl::Status CProcess::Stop(const Interrupted& interrupted) {
  std::lock_guard<std::mutex> life(life_);
  if (worker_ == nullptr) return absl::OkStatus();
  absl::Status status = worker_->Shutdown(interrupted);
  std::unique_ptr<Worker> stopped;
  {
    // Who waits in a call meanwhile comes out with ABORTED.
    std::unique_lock<std::shared_mutex> lock(mutex_);
    stopped = std::move(worker_);
  }
  return status;
}

}  // namespace farandole
