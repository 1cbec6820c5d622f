#include "deploy/launcher/host_discovery.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/launcher/policy/failure_report.h"
#include "deploy/launcher/process/worker_process.h"

namespace farandole::launcher {
namespace {

// 4,096 hosts with names of 255 bytes.
constexpr size_t kMostOutput = 1024 * 1024;

}  // namespace

absl::StatusOr<std::unique_ptr<HostDiscovery>> HostDiscovery::Make(Plan plan, EventLoop* loop, OnHosts on_hosts) {
  std::unique_ptr<HostDiscovery> made(new HostDiscovery(std::move(plan), loop, std::move(on_hosts)));
  absl::StatusOr<std::unique_ptr<AlarmClock>> clock = AlarmClock::Make(loop, [at = made.get()] { at->OnAlarm(); });
  if (!clock.ok()) return clock.status();
  made->clock_ = *std::move(clock);
  made->clock_->Set(absl::ZeroDuration());
  return made;
}

HostDiscovery::HostDiscovery(Plan plan, EventLoop* loop, OnHosts on_hosts)
    : plan_(std::move(plan)), loop_(loop), on_hosts_(std::move(on_hosts)) {}

HostDiscovery::~HostDiscovery() { Kill(); }

void HostDiscovery::OnAlarm() {
  if (pid_ < 0) {
    Ask();
  } else {
    is_late_ = true;
    Kill();
    clock_->Set(absl::InfiniteDuration());
  }
}

void HostDiscovery::Ask() {
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const absl::StatusOr<WorkerProcess> process =
      StartWorker(WorkerCommand{"/bin/sh", {"sh", "-c", plan_.command}, plan_.environment, null_fd});
  if (null_fd >= 0) close(null_fd);
  if (!process.ok()) {
    clock_->Set(clock_->Now() + plan_.interval);
    Tell(process.status());
    return;
  }
  pid_ = process->pid;
  is_late_ = false;
  output_.clear();
  words_ = LineTail();
  out_ = std::make_unique<WorkerPipe>(process->stdout_fd, loop_, [this](absl::string_view bytes) { OnOutput(bytes); });
  err_ = std::make_unique<WorkerPipe>(process->stderr_fd, loop_, [this](absl::string_view bytes) {
    err_lines_.Push(bytes, [this](absl::string_view line) { words_.Add(line); });
  });
  out_->Resume();
  err_->Resume();
  clock_->Set(clock_->Now() + plan_.limit);
}

void HostDiscovery::OnOutput(absl::string_view bytes) {
  output_.append(bytes.data(), bytes.size());
  if (output_.size() > kMostOutput) Kill();
}

bool HostDiscovery::OnChildEnded(pid_t pid, WorkerEnd end) {
  if (pid != pid_) return false;
  while (output_.size() <= kMostOutput && out_->ReadSome()) {
  }
  while (err_->ReadSome()) {
  }
  err_lines_.Finish([this](absl::string_view line) { words_.Add(line); });
  // Its descendants hold none of our descriptors.
  Kill();
  pid_ = -1;
  out_.reset();
  err_.reset();
  clock_->Set(clock_->Now() + plan_.interval);
  if (end.failed() || output_.size() > kMostOutput) {
    Tell(DescribeFailure(end));
  } else {
    Tell(ParseDiscovered(output_, plan_.default_slots));
  }
  return true;
}

void HostDiscovery::Kill() {
  if (pid_ > 0) kill(-pid_, SIGKILL);
}

void HostDiscovery::Tell(absl::StatusOr<std::vector<HostSlots>> hosts) {
  std::string failure;
  if (!hosts.ok()) {
    failure = absl::StrCat("host discovery: '", plan_.command, "': ", hosts.status().message());
    hosts = absl::Status(hosts.status().code(), failure);
  }
  const bool is_known = !failure.empty() && failure == last_failure_;
  last_failure_ = std::move(failure);
  if (!is_known) on_hosts_(std::move(hosts));
}

absl::Status HostDiscovery::DescribeFailure(WorkerEnd end) const {
  if (is_late_) {
    return absl::DeadlineExceededError(absl::StrCat("no answer within ", FormatSeconds(plan_.limit)));
  }
  if (output_.size() > kMostOutput) {
    return absl::ResourceExhaustedError(absl::StrCat("it printed more than ", kMostOutput, " bytes"));
  }
  const std::string words = words_.lines().empty() ? "" : absl::StrCat(": ", words_.lines().back());
  return absl::UnavailableError(absl::StrCat("it ended with ", end.Describe(), words));
}

}  // namespace farandole::launcher
