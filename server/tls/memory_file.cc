#include "server/tls/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

absl::Status Failed(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " a file in memory: ", strerror(errno)));
}

// A descriptor of a new file with the content.
absl::StatusOr<int> Write(absl::string_view content) {
  const int descriptor = memfd_create("farandole", MFD_CLOEXEC);
  if (descriptor < 0) return Failed("make");
  while (!content.empty()) {
    const ssize_t written = write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      absl::Status status = Failed("write");
      close(descriptor);
      return status;
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  return descriptor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryFile>> MemoryFile::Make(absl::string_view content) {
  const absl::StatusOr<int> descriptor = Write(content);
  if (!descriptor.ok()) return descriptor.status();
  std::unique_ptr<MemoryFile> file(new MemoryFile(*descriptor));
  if (access(file->path().c_str(), R_OK) != 0) return Failed(absl::StrCat("open by ", file->path()));
  return file;
}

MemoryFile::MemoryFile(int descriptor) : descriptor_(descriptor), path_(absl::StrCat("/proc/self/fd/", descriptor)) {}

MemoryFile::~MemoryFile() { close(descriptor_); }

absl::Status MemoryFile::Replace(absl::string_view content) {
  const absl::StatusOr<int> fresh = Write(content);
  if (!fresh.ok()) return fresh.status();
  // One step: the number, and so the path, means the new file from now on.
  const absl::Status status = dup3(*fresh, descriptor_, O_CLOEXEC) < 0 ? Failed("replace") : absl::OkStatus();
  close(*fresh);
  return status;
}

}  // namespace farandole
