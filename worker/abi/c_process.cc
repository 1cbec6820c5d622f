#include "worker/abi/c_process.h"

#include <pthread.h>
#include <stdlib.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/core/log.h"
#include "worker/member/embedded_coordinator.h"

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

std::shared_ptr<Worker> CProcess::Share() {
  if (is_forked_child()) return nullptr;
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  return worker_;
}

Interrupted CProcess::OrStop(const Interrupted& interrupted) const {
  return [this, &interrupted] { return (interrupted && interrupted()) || turn_.IsStopWanted(); };
}

absl::Status CProcess::EndTurn(absl::Status status, const Interrupted& interrupted) {
  if (turn_.IsStopWanted()) {
    StopInTurn(interrupted).IgnoreError();
    status = absl::FailedPreconditionError("shutdown() was called meanwhile");
  }
  turn_.End();
  return status;
}

absl::Status CProcess::Start(WorkerOptions options, const Interrupted& interrupted) {
  if (absl::Status taken = turn_.Take(interrupted); !taken.ok()) return taken;
  return EndTurn(StartInTurn(std::move(options), OrStop(interrupted)), interrupted);
}

absl::Status CProcess::StartInTurn(WorkerOptions options, const Interrupted& interrupted) {
  if (worker_ != nullptr) return absl::FailedPreconditionError("farandole is initialized already; shut it down first");
  if (options.launch.has_value()) {
    if (absl::Status found = FindCoordinator(&options, interrupted); !found.ok()) return found;
  }
  options_ = std::move(options);
  is_elastic_.store(options_->is_elastic());
  if (!options_->warning.empty() && options_->launch_index == 0) Warn(0, options_->warning);
  AttachProfiler();
  lineage_.predecessor = "";
  lineage_.speaks = options_->launch_index == 0;
  lineage_.patience = absl::ZeroDuration();
  {
    std::lock_guard<std::mutex> lock(departure_mutex_);
    departure_.reset();
  }
  const absl::Status started = Replace(StartWorker(interrupted));
  if (started.ok() && !options_->timeline.empty()) StartTimeline();
  return started;
}

void CProcess::AttachProfiler() {
  const absl::StatusOr<const ProfilerRanges*> profiler =
      options_->profiler.empty() ? nullptr : ProfilerRanges::Attach(options_->profiler);
  timeline_.Attach(profiler.value_or(nullptr));
  if (profiler.ok()) return;
  Warn(options_->launch_index,
       absl::StrCat("the profiler of NVTX_INJECTION64_PATH cannot be attached: ", profiler.status().message()));
}

void CProcess::StartTimeline() {
  const int rank = worker_->rank_numbers().rank;
  const absl::Status started =
      timeline_.Start(options_->timeline, options_->timeline_marks_cycles, rank, worker_->who());
  if (!started.ok()) Warn(rank, started.message());
}

void CProcess::Warn(int rank, absl::string_view sentence) const {
  WorkerLog(options_->log_level, options_->log_format, options_->job).Write(LogLevel::kWarning, rank, sentence);
}

absl::Status CProcess::Rejoin(const Interrupted& interrupted) {
  if (absl::Status taken = turn_.Take(interrupted); !taken.ok()) return taken;
  return EndTurn(RejoinInTurn(OrStop(interrupted)), interrupted);
}

absl::Status CProcess::RejoinInTurn(const Interrupted& interrupted) {
  if (!options_.has_value()) {
    return absl::FailedPreconditionError("farandole was never initialized; call init() first (in C: farandole_init)");
  }
  if (!options_->is_elastic() && !options_->coordinator.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("job ", options_->job,
                                                      " is not elastic, so that no epoch follows another; set "
                                                      "FARANDOLE_MIN_SIZE or FARANDOLE_MAX_SIZE"));
  }
  if (worker_ != nullptr) {
    bool job_over = false;
    const absl::Status left = worker_->MoveOn(&lineage_, &job_over, interrupted);
    if (job_over) return Replace(left);
    if (!left.ok()) return left;
  }
  lineage_.patience = options_->outage_limit;
  return Replace(StartWorker(interrupted));
}

absl::StatusOr<std::unique_ptr<Worker>> CProcess::StartWorker(const Interrupted& interrupted) {
  for (;;) {
    absl::StatusOr<std::unique_ptr<Worker>> started =
        Worker::Start(*options_, &lineage_, {&timeline_, &stacks_, &logged_, &sections_}, interrupted);
    if (started.ok() || !lineage_.may_go_on) return started;
    lineage_.patience = options_->outage_limit;
  }
}

absl::Status CProcess::Replace(absl::StatusOr<std::unique_ptr<Worker>> worker) {
  std::shared_ptr<Worker> old;
  {
    // Calls that wait meanwhile return ABORTED.
    std::unique_lock<std::shared_mutex> lock(mutex_);
    old = std::exchange(worker_, worker.ok() ? *std::move(worker) : nullptr);
  }
  std::lock_guard<std::mutex> lock(departure_mutex_);
  if (worker_ != nullptr && departure_.has_value()) worker_->link()->Depart(departure_->grace, departure_->reason);
  return worker.status();
}

absl::Status CProcess::Depart(Worker& worker, absl::Duration grace, const std::string& reason) {
  if (!is_elastic() || worker.link() == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", worker.options().job, " is not elastic: it cannot go on without this process"));
  }
  std::lock_guard<std::mutex> lock(departure_mutex_);
  departure_ = {grace, reason};
  worker.link()->Depart(grace, reason);
  return absl::OkStatus();
}

absl::Status CProcess::FindCoordinator(WorkerOptions* options, const Interrupted& interrupted) {
  const bool had_board = board_ != nullptr;
  absl::Status found = FindEmbeddedCoordinator(options, &board_, interrupted);
  if (board_ != nullptr && !had_board) {
    // A thread in Start or Stop keeps it at the exit.
    atexit([] {
      if (Process().is_forked_child() || !Process().turn_.TryTake()) return;
      Process().board_.reset();
      Process().turn_.End();
    });
  }
  return found;
}

absl::Status CProcess::Stop(const Interrupted& interrupted) {
  if (turn_.IsMine()) {
    turn_.WantStop();
    return absl::OkStatus();
  }
  if (absl::Status taken = turn_.TakeToStop(interrupted); !taken.ok()) return taken;
  absl::Status status = StopInTurn(interrupted);
  turn_.End();
  return status;
}

absl::Status CProcess::StopInTurn(const Interrupted& interrupted) {
  if (worker_ == nullptr) return absl::OkStatus();
  is_stopping_.store(true);
  absl::Status status = worker_->Shutdown(interrupted);
  lineage_.next_handles = worker_->engine().table().next_handles();
  timeline_.Stop();
  Replace(std::unique_ptr<Worker>()).IgnoreError();
  is_stopping_.store(false);
  return status;
}

}  // namespace farandole
