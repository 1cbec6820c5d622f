#include "sdk/tensorflow/completer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/quiet_thread.h"

namespace farandole::tensorflow {
namespace {

// How long one wait of the thread lasts; it goes on afterwards.
constexpr int64_t kWaitMs = 1000;
// How long the submission of a caller that waits anyway does the work, before the caller waits in slices.
constexpr int64_t kSurfaceMs = 100;

}  // namespace

Completer& Completer::Get() {
  static Completer* completer = new Completer();
  return *completer;
}

void Completer::Run(std::unique_ptr<Call> call) {
  if (!call->Prepare()) {
    call->Deliver();
    return;
  }
  const Attributes& terms = call->attributes();
  std::unique_ptr<Call> failed;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!terms.name.empty()) {
      const auto [at, is_free] = names_.try_emplace(Key(terms.op, terms.group, terms.name));
      if (!is_free) {
        at->second.push_back(std::move(call));
        return;
      }
    }
    if (terms.waits) {
      lock.unlock();
      WaitAndFinish(std::move(call));
      return;
    }
    failed = StartLocked(std::move(call));
  }
  if (failed != nullptr) Finish(std::move(failed));
}

void Completer::WaitAndFinish(std::unique_ptr<Call> call) {
  if (call->Submit(kSurfaceMs)) call->Wait();
  Finish(std::move(call));
}

std::unique_ptr<Call> Completer::StartLocked(std::unique_ptr<Call> call) {
  // The lock is held over the submission, so that the thread, when it sees a completion, finds the call here.
  if (!StartThreadLocked() || !call->Submit(0)) return call;
  pending_.push_back(std::move(call));
  submitted_.notify_one();
  return nullptr;
}

void Completer::Finish(std::unique_ptr<Call> call) {
  while (call != nullptr) {
    const Attributes& terms = call->attributes();
    const Key key(terms.op, terms.group, terms.name);
    std::unique_ptr<Call> next;
    if (!terms.name.empty()) {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto at = names_.find(key);
      if (at->second.empty()) {
        names_.erase(at);
      } else {
        next = std::move(at->second.front());
        at->second.pop_front();
        next = StartLocked(std::move(next));
      }
    }
    // Kernels that TensorFlow runs within it come back to Run.
    call->Deliver();
    call = std::move(next);
  }
}

bool Completer::StartThreadLocked() {
  if (!has_thread_) has_thread_ = DetachQuietly([this] { Loop(); });
  return has_thread_;
}

void Completer::Loop() {
  uint64_t completions = 0;
  std::vector<std::unique_ptr<Call>> own;
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (own.empty()) submitted_.wait(lock, [this] { return !pending_.empty(); });
      std::move(pending_.begin(), pending_.end(), std::back_inserter(own));
      pending_.clear();
    }
    const auto complete =
        std::stable_partition(own.begin(), own.end(), [](const auto& call) { return !call->IsComplete(); });
    std::vector<std::unique_ptr<Call>> delivered(std::make_move_iterator(complete), std::make_move_iterator(own.end()));
    own.erase(complete, own.end());
    for (std::unique_ptr<Call>& call : delivered) Finish(std::move(call));
    // A worker that is gone leaves no call incomplete: the next round delivers its error.
    if (delivered.empty() && !own.empty()) Worker().wait_for_completion(&completions, kWaitMs);
  }
}

}  // namespace farandole::tensorflow
