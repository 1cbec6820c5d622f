#include "worker/engine/submissions/book/timeline.h"

#include <stdio.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/foreign_entry.h"
#include "worker/core/clock.h"

namespace farandole {

std::string Timeline::PathOf(const std::string& path, int rank) {
  if (rank == 0) return path;
  const size_t folder = path.rfind('/');
  const size_t dot = path.rfind('.');
  const bool has_extension = dot != std::string::npos && dot > 0 && (folder == std::string::npos || dot > folder + 1);
  const size_t end = has_extension ? dot : path.size();
  return absl::StrCat(path.substr(0, end), ".rank", rank, path.substr(end));
}

absl::Status Timeline::Start(const std::string& path, bool marks_cycles, int rank, const std::string& who) {
  const std::lock_guard<std::mutex> life(life_);
  const std::string own = PathOf(path, rank);
  const uint32_t output = marks_cycles ? kFile | kFileMarks : kFile;
  if (Has(kFile) && own == path_) {
    outputs_.fetch_and(~kFileMarks);
    outputs_.fetch_or(output);
    return absl::OkStatus();
  }
  const absl::StatusOr<int> fd = OpenToWrite(own);
  if (!fd.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the timeline ", own, " cannot be written: ", fd.status().message()));
  }
  std::FILE* file = fdopen(*fd, "w");
  End();
  file_ = file;
  path_ = own;
  lines_ = "[\n";
  text_ = std::make_unique<TimelineText>(rank, who, absl::GetCurrentTimeNanos() - MonotonicNs(), &lines_);
  text_->BeginPart();
  Write({}, 0);
  to_file_.Start([this](const std::vector<TimelineEvent>& events, uint64_t dropped) { Write(events, dropped); });
  outputs_.fetch_or(output);
  return absl::OkStatus();
}

void Timeline::Stop() {
  const std::lock_guard<std::mutex> life(life_);
  End();
}

void Timeline::End() {
  if (!Has(kFile)) return;
  outputs_.fetch_and(~(kFile | kFileMarks));
  to_file_.Stop();
  std::fputs("\n]\n", file_);
  std::fclose(file_);
  file_ = nullptr;
}

void Timeline::Listen(const void* listener, bool marks_cycles, EventQueue::Sink sink) {
  const std::lock_guard<std::mutex> life(life_);
  outputs_.fetch_and(~(kListener | kListenerMarks));
  to_listener_.Stop();
  listener_ = listener;
  to_listener_.Start(std::move(sink));
  outputs_.fetch_or(marks_cycles ? kListener | kListenerMarks : kListener);
}

void Timeline::Unlisten(const void* listener) {
  const std::lock_guard<std::mutex> life(life_);
  if (listener != listener_) return;
  outputs_.fetch_and(~(kListener | kListenerMarks));
  to_listener_.Stop();
}

void Timeline::Begin(Submission* submission) const {
  if (profiler_ == nullptr) return;
  submission->profiler_range =
      profiler_->Begin(absl::StrCat(TraitsOf(submission->op).name, " ", submission->name), submission->bytes());
}

void Timeline::Add(const Submission& submission, int64_t ended_ns) {
  if (submission.profiler_range != 0) profiler_->End(submission.profiler_range);
  // An attached profiler needs no event.
  if (!Has(kFile | kListener)) return;
  if (submission.started_ns == 0) MarkCycle(ended_ns);
  Push({submission.name, submission.op, submission.dtype, submission.group, submission.count, submission.submitted_ns,
        submission.started_ns, ended_ns, submission.status.ok() ? "" : submission.status.ToString()});
}

void Timeline::MarkCycle(int64_t now_ns) {
  if (!Has(kFileMarks | kListenerMarks)) return;
  const TimelineEvent mark{"", OpType::kBarrier, DType::kU8, 0, 0, now_ns, 0, now_ns, ""};
  if (Has(kFileMarks)) to_file_.Push(mark);
  if (Has(kListenerMarks)) to_listener_.Push(mark);
}

GpuRecorder Timeline::GpuTimes() {
  return {[this] { return Has(kFile | kListener); },
          [this](const std::string& label, int64_t from_ns, int64_t to_ns) {
            Push({label, {}, {}, 0, 0, from_ns, from_ns, to_ns, "", /*is_on_gpu=*/true});
          }};
}

void Timeline::Push(const TimelineEvent& event) {
  if (Has(kFile)) to_file_.Push(event);
  if (Has(kListener)) to_listener_.Push(event);
}

void Timeline::Write(const std::vector<TimelineEvent>& events, uint64_t dropped) {
  for (const TimelineEvent& event : events) text_->Add(event);
  if (dropped > 0) text_->AddDropped(dropped, events.back().ended_ns);
  std::fputs(lines_.c_str(), file_);
  std::fflush(file_);
  lines_.clear();
}

}  // namespace farandole
