#include "deploy/launcher/worker_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farandole::launcher {

WorkerOutput::WorkerOutput(Console::Stream stream, int worker, Console* console)
    : stream_(stream), worker_(worker), console_(console) {}

WorkerOutput::~WorkerOutput() {
  if (file_fd_ >= 0) close(file_fd_);
}

absl::Status WorkerOutput::CopyTo(const std::string& path) {
  file_fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_fd_ < 0) return absl::FailedPreconditionError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
  file_path_ = path;
  return absl::OkStatus();
}

void WorkerOutput::Push(absl::string_view bytes) {
  CopyToFile(bytes);
  if (worker_ == 0) console_->Unfinished(stream_, "");
  splitter_.Push(bytes, [this](absl::string_view line) { EmitLine(line); });
  if (worker_ == 0) console_->Unfinished(stream_, splitter_.unfinished());
}

void WorkerOutput::Finish() {
  splitter_.Finish([this](absl::string_view line) { EmitLine(line); });
  if (worker_ == 0) console_->Unfinished(stream_, "");
  if (file_fd_ >= 0) close(file_fd_);
  file_fd_ = -1;
}

void WorkerOutput::EmitLine(absl::string_view line) {
  tail_.Add(line);
  console_->Line(stream_, worker_, line);
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
