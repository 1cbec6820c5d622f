#include "deploy/launcher/policy/stop_policy.h"

#include <signal.h>
#include <string.h>

#include <algorithm>

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

bool WorkerEnd::is_program_fault() const {
  if (is_lost) return false;
  const bool is_own_signal =
      signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE || signal == SIGILL;
  return is_own_signal || (signal == 0 && code != 0);
}

StopPolicy::StopPolicy(int workers, StopLimits limits)
    : limits_(limits),
      is_elastic_(false),
      ends_(workers),
      end_times_(workers),
      ended_(workers, false),
      given_up_(workers, false),
      outlived_(workers, false),
      running_(workers) {}

StopPolicy::StopPolicy(StopLimits limits) : limits_(limits), is_elastic_(true), running_(0) {}

int StopPolicy::Add() {
  ends_.emplace_back();
  end_times_.emplace_back();
  ended_.push_back(false);
  given_up_.push_back(false);
  outlived_.push_back(false);
  ++running_;
  return workers() - 1;
}

int StopPolicy::WorkerEnded(int index, WorkerEnd end, absl::Duration now) {
  if (ended_[index]) return 0;
  ended_[index] = true;
  ends_[index] = end;
  end_times_[index] = now;
  --running_;
  // A killed process closes its sockets before its end can be seen; a peer that only learned of the failure ends with a
  // code.
  const bool is_cause = end.signal != 0 || end.is_lost;
  if (is_elastic_ && stop_signal_ == 0 && stage_ == kRunning) {
    if (end.failed() && given_up_[index]) {
      last_given_up_ = index;
    } else if (end.failed()) {
      NoteLoss(index);
    } else {
      last_success_ = now;
    }
    return 0;
  }
  if (stage_ == kGrace && !has_signalled_ && first_failed_ < 0 && stop_signal_ == 0 && end.failed()) {
    first_failed_ = index;
  } else if (stage_ == kGrace && !has_signalled_ && is_cause && first_failed_ >= 0 &&
             ends_[first_failed_].signal == 0 && !ends_[first_failed_].is_lost) {
    first_failed_ = index;
  }
  if (stage_ != kRunning || (!end.failed() && stop_signal_ == 0)) return 0;
  if (stop_signal_ == 0) first_failed_ = index;
  stage_ = kGrace;
  deadline_ = now + (stop_signal_ == 0 ? limits_.after_failure : limits_.after_request);
  return 0;
}

void StopPolicy::NoteLoss(int index) {
  const auto is_cause = [this](int worker) { return ends_[worker].signal != 0 || ends_[worker].is_lost; };
  const absl::Duration now = end_times_[index];
  const bool is_another = first_failed_ < 0 || now - last_failure_ > limits_.same_cause;
  if (is_another || (is_cause(index) && !is_cause(first_failed_))) first_failed_ = index;
  last_failure_ = now;
}

void StopPolicy::Outlive(int index) {
  outlived_[index] = true;
  if (stage_ != kRunning || stop_signal_ != 0) return;
  // The failures are looked at anew, without this one.
  std::vector<int> failures;
  for (int worker = 0; worker < workers(); ++worker) {
    if (ended_[worker] && ends_[worker].failed() && !given_up_[worker] && !outlived_[worker])
      failures.push_back(worker);
  }
  std::stable_sort(failures.begin(), failures.end(), [this](int a, int b) { return end_times_[a] < end_times_[b]; });
  first_failed_ = -1;
  last_failure_ = -absl::InfiniteDuration();
  for (const int worker : failures) NoteLoss(worker);
}

void StopPolicy::JobOver(int index, bool failed, absl::Duration now) {
  if (!failed && !outlived_[index]) finishing_since_ = std::min(finishing_since_, end_times_[index]);
  if (is_job_over_) return;
  is_job_over_ = true;
  if (failed && stage_ == kRunning && stop_signal_ == 0) {
    if (first_failed_ < 0 && ends_[index].failed()) first_failed_ = index;
    stage_ = kGrace;
    has_job_failed_ = true;
    deadline_ = now + limits_.after_failure;
  }
}

int StopPolicy::first_running() const {
  const auto found = std::find(ended_.begin(), ended_.end(), false);
  return found == ended_.end() ? 0 : static_cast<int>(found - ended_.begin());
}

bool StopPolicy::has_outlived() const {
  if (stage_ != kRunning || last_success_ == -absl::InfiniteDuration()) return false;
  return last_failure_ < std::min(finishing_since_, last_success_);
}

int StopPolicy::first_failed() const {
  if (!is_elastic_ || !all_ended()) return first_failed_;
  if (first_failed_ >= 0 && !has_outlived()) return first_failed_;
  // A worker that was given up may have been the last one; then the program has not finished.
  const bool is_finished =
      is_job_over_ ? !has_job_failed_ : last_given_up_ >= 0 && end_times_[last_given_up_] <= last_success_;
  return stop_signal_ == 0 && !is_finished ? last_given_up_ : -1;
}

int StopPolicy::StopRequested(int signal, absl::Duration now) {
  if (signal == SIGINT && interrupted_ != -absl::InfiniteDuration()) {
    return now - interrupted_ < limits_.same_interrupt ? 0 : Kill();
  }
  if (signal == SIGINT) interrupted_ = now;
  has_signalled_ = true;
  if (stage_ == kRunning && stop_signal_ == 0) {
    stop_signal_ = signal;
    // Failures that the job has outlived so far are not why it ends.
    if (is_elastic_) first_failed_ = -1;
    // If some have ended already, those left may be waiting for them in vain.
    if (!is_elastic_ && running_ < workers()) {
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
  // Workers killed now did not fail by themselves.
  stage_ = kKilled;
  deadline_ = absl::InfiniteDuration();
  return SIGKILL;
}

bool StopPolicy::Blame(int index) {
  auto has_code = [this](int worker) { return ends_[worker].code != 0 && ends_[worker].signal == 0; };
  if (first_failed_ < 0 || !has_code(first_failed_) || !has_code(index) || ends_[first_failed_].is_lost) return false;
  first_failed_ = index;
  return true;
}

std::vector<std::string> StopPolicy::flights() const {
  std::vector<std::string> flights;
  for (const WorkerEnd& end : ends_) {
    if (!end.flight.empty()) flights.push_back(end.flight);
  }
  return flights;
}

int StopPolicy::exit_code() const {
  if (abandoned_) return 128 + SIGKILL;
  if (const int failed = first_failed(); failed >= 0) return ends_[failed].exit_code();
  if (stop_signal_ != 0) return 128 + stop_signal_;
  return has_job_failed_ ? 1 : 0;
}

}  // namespace farandole::launcher
