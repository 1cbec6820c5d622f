#include "deploy/launcher/output/worker_outputs.h"

#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "deploy/launcher/output/output_directory.h"

namespace farandole::launcher {

absl::Status WorkerOutputs::Open(EventLoop* loop) {
  absl::StatusOr<std::unique_ptr<AlarmClock>> clock = AlarmClock::Make(loop, [this] { is_due_ = true; });
  if (!clock.ok()) return clock.status();
  clock_ = *std::move(clock);
  return absl::OkStatus();
}

absl::Status WorkerOutputs::Add(const std::string& directory, int workers) {
  const auto index = static_cast<int>(workers_.size());
  Worker& worker = workers_.emplace_back();
  worker.out = std::make_unique<WorkerOutput>(Console::kStdout, index, console_);
  worker.err = std::make_unique<WorkerOutput>(Console::kStderr, index, console_);
  if (directory.empty()) return absl::OkStatus();
  return CopyToDirectory(directory, index, workers, worker.out.get(), worker.err.get());
}

void WorkerOutputs::Push(int worker, Console::Stream stream, absl::string_view bytes) {
  const bool is_stdout = stream == Console::kStdout;
  WorkerOutput* const output = (is_stdout ? workers_[worker].out : workers_[worker].err).get();
  (is_stdout ? workers_[worker].err : workers_[worker].out)->Settle();
  if (bytes.empty()) {
    output->Finish();
    return;
  }
  output->Push(bytes, clock_->Now());
  pushed_.insert(output);
  if (waiting_.empty()) clock_->Set(clock_->Now() + WorkerOutput::kLookInterval);
  waiting_.insert(output);
}

void WorkerOutputs::Continue() {
  // A reader that is behind makes workers wait in the midst of their lines.
  if (std::exchange(is_due_, false)) {
    const std::vector<WorkerOutput*> outputs(waiting_.begin(), waiting_.end());
    for (WorkerOutput* output : outputs) {
      const bool is_at_rest = pushed_.count(output) == 0 && console_->HoldsNothing();
      if (is_at_rest && !output->Look(clock_->Now())) waiting_.erase(output);
    }
    if (!waiting_.empty()) clock_->Set(clock_->Now() + WorkerOutput::kLookInterval);
  }
  pushed_.clear();
}

void WorkerOutputs::OnEnter(int worker) {
  console_->OnEnter();
  if (worker >= static_cast<int>(workers_.size())) return;
  workers_[worker].out->OnEnter();
  workers_[worker].err->OnEnter();
}

void WorkerOutputs::FinishAll() {
  for (const Worker& worker : workers_) {
    worker.out->Finish();
    worker.err->Finish();
  }
}

}  // namespace farandole::launcher
