#include "deploy/launcher/stop_policy.h"

#include <signal.h>
#include <string.h>

#include "absl/strings/str_cat.h"

namespace farandole::launcher {

std::string SignalName(int signal) {
  const char* abbreviation = sigabbrev_np(signal);
  return abbreviation == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", abbreviation);
}

std::string WorkerEnd::Describe() const {
  if (is_lost) return "the loss of its host";
  return signal != 0 ? SignalName(signal) : absl::StrCat("exit code ", code);
}

StopPolicy::StopPolicy(int workers, StopLimits limits)
    : limits_(limits), ends_(workers), end_times_(workers), ended_(workers, false), running_(workers) {}

int StopPolicy::WorkerEnded(int index, WorkerEnd end, absl::Duration now) {
  if (ended_[index]) return 0;
  ended_[index] = true;
  ends_[index] = end;
  end_times_[index] = now;
  --running_;
  // A process that is killed lets go of its sockets before its end can be seen; who has only heard of it ends with a
  // code.
  const bool is_cause = end.signal != 0 || end.is_lost;
  if (stage_ == kGrace && !has_signalled_ && is_cause && ends_[first_failed_].signal == 0 &&
      !ends_[first_failed_].is_lost) {
    first_failed_ = index;
  }
  if (stage_ != kRunning || (!end.failed() && stop_signal_ == 0)) return 0;
  if (stop_signal_ == 0) first_failed_ = index;
  stage_ = kGrace;
  deadline_ = now + (stop_signal_ == 0 ? limits_.after_failure : limits_.after_request);
  return 0;
}

int StopPolicy::StopRequested(int signal, absl::Duration now) {
  if (signal == SIGINT && interrupted_ != -absl::InfiniteDuration()) {
    return now - interrupted_ < limits_.same_interrupt ? 0 : Kill();
  }
  if (signal == SIGINT) interrupted_ = now;
  has_signalled_ = true;
  if (stage_ == kRunning && stop_signal_ == 0) {
    stop_signal_ = signal;
    // Where some have ended already, those left may be waiting for them in vain.
    if (running_ < static_cast<int>(ended_.size())) {
      stage_ = kGrace;
      deadline_ = now + limits_.after_request;
    }
  }
  return signal;
}

int StopPolicy::Abandoned() {
  abandoned_ = true;
  return Kill();
}

int StopPolicy::DeadlineReached(absl::Duration now) {
  if (now < deadline_) return 0;
  if (stage_ != kGrace) return Kill();
  stage_ = kTerminated;
  deadline_ = now + limits_.after_terminate;
  return SIGTERM;
}

int StopPolicy::Kill() {
  // Whoever is killed now did not fail by itself.
  stage_ = kKilled;
  deadline_ = absl::InfiniteDuration();
  return SIGKILL;
}

void StopPolicy::Blame(int index) {
  auto has_code = [this](int worker) { return ends_[worker].code != 0 && ends_[worker].signal == 0; };
  if (first_failed_ >= 0 && has_code(first_failed_) && has_code(index) && !ends_[first_failed_].is_lost) {
    first_failed_ = index;
  }
}

int StopPolicy::exit_code() const {
  if (abandoned_) return 128 + SIGKILL;
  if (first_failed_ >= 0) return ends_[first_failed_].exit_code();
  return stop_signal_ == 0 ? 0 : 128 + stop_signal_;
}

}  // namespace farandole::launcher
