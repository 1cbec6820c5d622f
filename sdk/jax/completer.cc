#include "sdk/jax/completer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/quiet_thread.h"

namespace farandole::jax {
namespace {

// How long one wait of the thread lasts; it goes on afterwards.
constexpr int64_t kWaitMs = 1000;

}  // namespace

Completer& Completer::Get() {
  static Completer* completer = new Completer();
  return *completer;
}

Completer::Key Completer::KeyOf(const Call& call) {
  return {call.attributes().op, call.attributes().group, call.attributes().name};
}

FfiError* Completer::Run(std::unique_ptr<Call> call, FfiFuture** future) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!has_thread_) has_thread_ = DetachQuietly([this] { Loop(); });
  FfiFuture* const promised = has_thread_ ? call->Postpone() : nullptr;
  if (promised == nullptr) {
    // Nobody could tell XLA later, and a handler that waits may keep those from running that other ranks wait for.
    lock.unlock();
    call->Fail(FARANDOLE_RESOURCE_EXHAUSTED, "farandole.jax can start no thread in this process");
    return call->Finish();
  }
  *future = promised;
  const auto [at, is_free] = names_.try_emplace(KeyOf(*call));
  if (!is_free) {
    at->second.push_back(std::move(call));
    return nullptr;
  }
  std::unique_ptr<Call> failed = StartLocked(std::move(call));
  lock.unlock();
  if (failed != nullptr) Finish(std::move(failed));
  return nullptr;
}

std::unique_ptr<Call> Completer::StartLocked(std::unique_ptr<Call> call) {
  // The lock is held over the submission, so that the thread, when it has heard of a completion, finds the call here.
  if (!call->Submit(0)) return call;
  pending_.push_back(std::move(call));
  submitted_.notify_one();
  return nullptr;
}

std::unique_ptr<Call> Completer::StartNext(const Key& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto at = names_.find(key);
  if (at->second.empty()) {
    names_.erase(at);
    return nullptr;
  }
  std::unique_ptr<Call> next = std::move(at->second.front());
  at->second.pop_front();
  return StartLocked(std::move(next));
}

void Completer::Finish(std::unique_ptr<Call> call) {
  while (call != nullptr) {
    std::unique_ptr<Call> failed = StartNext(KeyOf(*call));
    // XLA may run further calls within Deliver, which come back to Run.
    call->Deliver();
    call = std::move(failed);
  }
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

}  // namespace farandole::jax
