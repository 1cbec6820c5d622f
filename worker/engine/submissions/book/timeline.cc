#include "worker/engine/submissions/book/timeline.h"

#include <errno.h>
#include <string.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/quiet_thread.h"
#include "nlohmann/json.hpp"
#include "worker/core/clock.h"

namespace farandole {
namespace {

// An event is in the file after this time at the latest; those that come meanwhile are written with it.
constexpr std::chrono::milliseconds kGathered(50);
// Of many a second the writer takes so many at a time.
constexpr size_t kWrittenAtOnce = 1 << 10;
// The row of all that has none of its own.
constexpr int kOthersRow = 0;

std::string Quote(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

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
  if (is_written_.load() && own == path_) {
    marks_cycles_.store(marks_cycles);
    return absl::OkStatus();
  }
  std::FILE* file = std::fopen(own.c_str(), "we");
  if (file == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("the timeline ", own, " cannot be written: ", strerror(errno)));
  }
  End();
  file_ = file;
  path_ = own;
  rank_ = rank;
  is_first_ = true;
  rows_.clear();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.clear();
    dropped_ = 0;
    is_ending_ = false;
  }
  real_minus_monotonic_ns_ = absl::GetCurrentTimeNanos() - MonotonicNs();
  std::fputs("[\n", file_);
  WriteLine(absl::StrCat(R"({"ph":"M","name":"process_name","pid":)", rank, R"(,"args":{"name":)", Quote(who),
                         R"(,"start_time_since_epoch_in_micros":)", absl::GetCurrentTimeNanos() / 1000, "}}"));
  WriteLine(
      absl::StrCat(R"({"ph":"M","name":"process_sort_index","pid":)", rank, R"(,"args":{"sort_index":)", rank, "}}"));
  std::fflush(file_);
  marks_cycles_.store(marks_cycles);
  writer_ = QuietThread([this] { Write(); });
  is_written_.store(true);
  return absl::OkStatus();
}

void Timeline::Stop() {
  const std::lock_guard<std::mutex> life(life_);
  End();
}

void Timeline::End() {
  if (!is_written_.load()) return;
  is_written_.store(false);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  writer_.join();
  std::fputs("\n]\n", file_);
  std::fclose(file_);
  file_ = nullptr;
}

void Timeline::Begin(Submission* submission) const {
  if (profiler_ == nullptr) return;
  submission->profiler_range =
      profiler_->Begin(absl::StrCat(TraitsOf(submission->op).name, " ", submission->name), submission->bytes());
}

void Timeline::Add(const Submission& submission, int64_t ended_ns) {
  if (submission.profiler_range != 0) profiler_->End(submission.profiler_range);
  if (!is_written_.load(std::memory_order_relaxed)) return;
  if (submission.started_ns == 0) MarkCycle(ended_ns);
  Push({submission.name, submission.op, submission.dtype, submission.group, submission.count, submission.submitted_ns,
        submission.started_ns, ended_ns, submission.status.ok() ? "" : submission.status.ToString()});
}

void Timeline::MarkCycle(int64_t now_ns) {
  if (marks_cycles_.load()) Push({"", OpType::kBarrier, DType::kU8, 0, 0, now_ns, 0, now_ns, ""});
}

GpuRecorder Timeline::GpuTimes() {
  return {[this] { return is_written_.load(std::memory_order_relaxed); },
          [this](const std::string& label, int64_t from_ns, int64_t to_ns) {
            Push({label, {}, {}, 0, 0, from_ns, from_ns, to_ns, "", /*is_on_gpu=*/true});
          }};
}

void Timeline::Push(Event event) {
  // An attached profiler needs no file.
  if (!is_written_.load(std::memory_order_relaxed)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (waiting_.size() >= kMostWaiting) {
    ++dropped_;
    return;
  }
  waiting_.push_back(std::move(event));
  // The first one wakes the writer, which then gathers: some 20 times a second at most, and not at all without events.
  if (waiting_.size() == 1 || waiting_.size() == kWrittenAtOnce) changed_.notify_all();
}

void Timeline::Write() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (bool is_last = false; !is_last;) {
    changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
    changed_.wait_for(lock, kGathered, [this] { return is_ending_ || waiting_.size() >= kWrittenAtOnce; });
    is_last = is_ending_;
    const std::vector<Event> events = std::exchange(waiting_, {});
    const uint64_t dropped = std::exchange(dropped_, 0);
    lock.unlock();
    for (const Event& event : events) WriteEvent(event);
    if (dropped > 0) {
      const std::string arguments = absl::StrCat(R"({"events":)", dropped, "}");
      const int64_t at = events.back().ended_ns;
      WriteSpan("DROPPED", kOthersRow, at, at, arguments);
    }
    std::fflush(file_);
    lock.lock();
  }
}

void Timeline::WriteEvent(const Event& event) {
  if (event.name.empty()) {
    return WriteLine(absl::StrCat(R"({"ph":"i","s":"p","name":"CYCLE_START","pid":)", rank_, R"(,"ts":)",
                                  (event.ended_ns + real_minus_monotonic_ns_) / 1000, "}"));
  }
  if (event.is_on_gpu) {
    return WriteSpan("ON_GPU", RowNamed("GPU"), event.started_ns, event.ended_ns,
                     absl::StrCat(R"({"tensors":)", Quote(event.name), "}"));
  }
  const std::string op = absl::AsciiStrToUpper(TraitsOf(event.op).name);
  const int row = RowNamed(absl::StrCat(TraitsOf(event.op).name, ".", event.name));
  const int64_t started_ns = event.started_ns == 0 ? event.ended_ns : event.started_ns;
  WriteSpan(absl::StrCat("NEGOTIATE_", op), row, event.submitted_ns, started_ns, "{}");
  const std::string error = event.error.empty() ? "" : absl::StrCat(R"(,"error":)", Quote(event.error));
  WriteSpan(op, row, started_ns, event.ended_ns,
            absl::StrCat(R"({"dtype":")", Name(event.dtype), R"(","elements":)", event.count, R"(,"bytes":)",
                         event.count * static_cast<int64_t>(SizeOf(event.dtype)), R"(,"process_set":)", event.group,
                         error, "}"));
}

int Timeline::RowNamed(const std::string& name) {
  const auto found = rows_.find(name);
  if (found != rows_.end()) return found->second;
  if (rows_.size() >= kMostRows) return kOthersRow;
  const int row = static_cast<int>(rows_.size()) + 1;
  WriteLine(absl::StrCat(R"({"ph":"M","name":"thread_name","pid":)", rank_, R"(,"tid":)", row, R"(,"args":{"name":)",
                         Quote(name), "}}"));
  rows_.emplace(name, row);
  return row;
}

void Timeline::WriteSpan(const std::string& name, int row, int64_t from_ns, int64_t to_ns,
                         const std::string& arguments) {
  const int64_t from = from_ns + real_minus_monotonic_ns_;
  const int64_t length = std::max<int64_t>(to_ns - from_ns, 0);
  // Microseconds, with their thousandths.
  WriteLine(absl::StrCat(R"({"ph":"X","name":")", name, R"(","pid":)", rank_, R"(,"tid":)", row, R"(,"ts":)",
                         from / 1000, ".", absl::Dec(from % 1000, absl::kZeroPad3), R"(,"dur":)", length / 1000, ".",
                         absl::Dec(length % 1000, absl::kZeroPad3), R"(,"args":)", arguments, "}"));
}

void Timeline::WriteLine(const std::string& text) {
  if (!is_first_) std::fputs(",\n", file_);
  is_first_ = false;
  std::fputs(text.c_str(), file_);
}

}  // namespace farandole
