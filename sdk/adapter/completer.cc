#include "sdk/adapter/completer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/quiet_thread.h"

namespace farandole::adapter {
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

Completer::Key Completer::KeyOf(const Call& call) {
  const Terms& terms = call.terms();
  return {terms.op, terms.group, terms.name};
}

bool Completer::Start() {
  std::lock_guard<std::mutex> lock(mutex_);
  return StartThreadLocked();
}

bool Completer::StartThreadLocked() {
  if (!has_thread_) has_thread_ = DetachQuietly([this] { Loop(); });
  return has_thread_;
}

void Completer::Reserve(Call* call) {
  std::lock_guard<std::mutex> lock(mutex_);
  ReserveLocked(call);
}

void Completer::ReserveLocked(Call* call) {
  if (call->turn_ == 0 && !call->terms().name.empty()) call->turn_ = ++names_[KeyOf(*call)].reserved;
}

void Completer::Skip(std::unique_ptr<Call> call) {
  call->is_skipped_ = true;
  Run(std::move(call));
}

void Completer::Run(std::unique_ptr<Call> call) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    ReserveLocked(call.get());
    if (call->turn_ != 0) {
      Queue& queue = names_[KeyOf(*call)];
      if (call->turn_ != queue.present) {
        queue.waiting.emplace(call->turn_, std::move(call));
        return;
      }
    }
    if (!call->terms().waits || call->is_skipped_) call = StartLocked(std::move(call));
  }
  if (call == nullptr) return;
  if (call->terms().waits && !call->is_skipped_ && call->Submit(kSurfaceMs)) call->Wait();
  Finish(std::move(call));
}

std::unique_ptr<Call> Completer::StartLocked(std::unique_ptr<Call> call) {
  if (call->is_skipped_) return call;
  if (!StartThreadLocked()) {
    call->Fail(FARANDOLE_RESOURCE_EXHAUSTED, "farandole can start no thread in this process");
    return call;
  }
  // The lock is held over the submission, so that the thread, when it sees a completion, finds the call here.
  if (!call->Submit(FARANDOLE_BRIEFLY) || call->IsComplete()) return call;
  pending_.push_back(std::move(call));
  submitted_.notify_one();
  return nullptr;
}

std::unique_ptr<Call> Completer::StartNext(const Key& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto at = names_.find(key);
  Queue& queue = at->second;
  if (++queue.present > queue.reserved) {
    names_.erase(at);
    return nullptr;
  }
  const auto next = queue.waiting.find(queue.present);
  if (next == queue.waiting.end()) return nullptr;
  std::unique_ptr<Call> call = std::move(next->second);
  queue.waiting.erase(next);
  return StartLocked(std::move(call));
}

void Completer::Finish(std::unique_ptr<Call> call) {
  while (call != nullptr) {
    std::unique_ptr<Call> ended = call->turn_ == 0 ? nullptr : StartNext(KeyOf(*call));
    // The framework may run further calls within Deliver, which come back to Run.
    if (!call->is_skipped_) call->Deliver();
    call = std::move(ended);
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

}  // namespace farandole::adapter
