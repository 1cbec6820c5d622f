#include "worker/abi/turn.h"

#include <chrono>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

constexpr std::chrono::milliseconds kSurface(100);

// This thread's innermost one.
thread_local const char* blocking_call = nullptr;

}  // namespace

BlockingCall::BlockingCall(const char* name) : name_(name), outer_(blocking_call) { blocking_call = name; }

BlockingCall::~BlockingCall() { blocking_call = outer_; }

absl::Status BlockingCall::status() const {
  if (outer_ == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(name_, " was called within ", outer_,
                   ", by a signal handler or other code that runs while that waits; call it when that has returned"));
}

absl::Status Turn::Await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& interrupted) {
  while (owner_ != std::thread::id()) {
    ended_.wait_for(lock, kSurface);
    if (owner_ == std::thread::id()) break;
    lock.unlock();
    const bool gives_up = interrupted && interrupted();
    lock.lock();
    if (gives_up) return absl::AbortedError("waiting for another thread's init() or shutdown() was interrupted");
  }
  owner_ = std::this_thread::get_id();
  return absl::OkStatus();
}

absl::Status Turn::Take(const std::function<bool()>& interrupted) {
  std::unique_lock<std::mutex> lock(mutex_);
  return Await(lock, interrupted);
}

absl::Status Turn::TakeToStop(const std::function<bool()>& interrupted) {
  std::unique_lock<std::mutex> lock(mutex_);
  ++waiting_to_stop_;
  absl::Status taken = Await(lock, interrupted);
  --waiting_to_stop_;
  return taken;
}

bool Turn::TryTake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (owner_ != std::thread::id()) return false;
  owner_ = std::this_thread::get_id();
  return true;
}

void Turn::End() {
  const std::lock_guard<std::mutex> lock(mutex_);
  owner_ = std::thread::id();
  owner_wants_stop_ = false;
  ended_.notify_all();
}

bool Turn::IsMine() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return owner_ == std::this_thread::get_id();
}

void Turn::WantStop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  owner_wants_stop_ = true;
}

bool Turn::IsStopWanted() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return owner_wants_stop_ || waiting_to_stop_ > 0;
}

}  // namespace farandole
