#include "worker/c_process.h"

#include <pthread.h>
#include <stdlib.h>

#include <utility>

#include "worker/embedded_coordinator.h"

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
  if (options.launch.has_value()) {
    if (absl::Status found = FindCoordinator(&options, interrupted); !found.ok()) return found;
  }
  absl::StatusOr<std::unique_ptr<Worker>> started = Worker::Start(std::move(options), interrupted);
  if (!started.ok()) return started.status();
  std::unique_lock<std::shared_mutex> lock(mutex_);
  worker_ = *std::move(started);
  return absl::OkStatus();
}

absl::Status CProcess::FindCoordinator(WorkerOptions* options, const Interrupted& interrupted) {
  const bool had_board = board_ != nullptr;
  absl::Status found = FindEmbeddedCoordinator(options, &board_, interrupted);
  if (board_ != nullptr && !had_board) {
    // Who is in Start or Stop at the exit keeps it.
    atexit([] {
      const std::unique_lock<std::mutex> life(Process().life_, std::try_to_lock);
      if (life.owns_lock() && !Process().is_forked_child()) Process().board_.reset();
    });
  }
  return found;
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
