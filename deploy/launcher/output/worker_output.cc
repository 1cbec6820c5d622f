#include "deploy/launcher/output/worker_output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/foreign_entry.h"

namespace farandole::launcher {
namespace {

// The sizes of the buffers of programs are multiples of it.
constexpr uint64_t kBufferBytes = 4096;
// Between two states of a line that is written anew again and again.
constexpr absl::Duration kPartialInterval = absl::Milliseconds(200);

}  // namespace

WorkerOutput::WorkerOutput(Console::Stream stream, int worker, Console* console)
    : stream_(stream), worker_(worker), console_(console) {}

WorkerOutput::~WorkerOutput() {
  if (file_fd_ >= 0) close(file_fd_);
}

absl::Status WorkerOutput::CopyTo(const std::string& path) {
  const absl::StatusOr<int> fd = OpenToWrite(path);
  if (!fd.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("cannot write ", path, ": ", fd.status().message()));
  }
  file_fd_ = *fd;
  file_path_ = path;
  return absl::OkStatus();
}

void WorkerOutput::Push(absl::string_view bytes, absl::Duration now) {
  bytes_ += bytes.size();
  CopyToFile(bytes);
  splitter_.Push(bytes, [this](absl::string_view line) { EmitLine(line); });
  if (due_ == absl::InfiniteDuration() && !splitter_.current().text.empty()) due_ = now + kLookInterval;
  console_->Unfinished(stream_, worker_, splitter_.rows());
}

bool WorkerOutput::Look(absl::Duration now) {
  Settle();
  // A writer of full buffers, as C's library is, has no line's end there, and soon writes the next one.
  const bool is_full_buffer = bytes_ % kBufferBytes == 0;
  if (now >= due_ && !splitter_.current().text.empty() && !is_full_buffer) {
    console_->Partial(stream_, worker_, splitter_.current());
    due_ = now + kPartialInterval;
  }
  return IsToBeLookedAt();
}

void WorkerOutput::Settle() {
  if (splitter_.is_settled()) return;
  splitter_.Settle([this](absl::string_view line) { EmitLine(line); });
  console_->Unfinished(stream_, worker_, splitter_.rows());
}

bool WorkerOutput::IsToBeLookedAt() const {
  return !splitter_.is_settled() || (!splitter_.current().text.empty() && !console_->is_terminal(stream_));
}

void WorkerOutput::OnEnter() {
  if (!console_->is_terminal(stream_) || splitter_.current().is_progress) return;
  splitter_.DropLine();
  console_->Unfinished(stream_, worker_, splitter_.rows());
}

void WorkerOutput::Finish() {
  splitter_.Finish([this](absl::string_view line) { EmitLine(line); });
  console_->Unfinished(stream_, worker_, splitter_.rows());
  if (file_fd_ >= 0) close(file_fd_);
  file_fd_ = -1;
}

void WorkerOutput::EmitLine(absl::string_view line) {
  tail_.Add(line);
  console_->Line(stream_, worker_, line);
  last_line_at_ = console_->lines_on_stderr();
  due_ = absl::InfiniteDuration();
}

void WorkerOutput::CopyToFile(absl::string_view bytes) {
  while (file_fd_ >= 0 && !bytes.empty()) {
    const ssize_t written = write(file_fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      console_->Say(
          absl::StrCat("cannot write ", file_path_, " (", strerror(errno), "): it ends here, and the run goes on"));
      close(file_fd_);
      file_fd_ = -1;
      return;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace farandole::launcher
