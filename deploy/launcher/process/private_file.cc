#include "deploy/launcher/process/private_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::launcher {

absl::Status WritePrivateFile(const std::string& path, absl::string_view content) {
  // Never through a link, nor into a file that another process could have open.
  unlink(path.c_str());
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  const bool is_written = fd >= 0 && write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  const int error = errno;
  if (fd >= 0) close(fd);
  if (is_written) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("cannot write ", path, ": ", strerror(error)));
}

absl::StatusOr<PrivateDirectory> PrivateDirectory::Make(const std::string& parent) {
  std::string path = absl::StrCat(parent, "/farandole.XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("cannot make a directory in ", parent, ": ", strerror(errno)));
  }
  return PrivateDirectory(std::move(path));
}

PrivateDirectory::PrivateDirectory(PrivateDirectory&& other) noexcept : path_(std::exchange(other.path_, "")) {}

PrivateDirectory::~PrivateDirectory() {
  if (!path_.empty()) RemovePrivateDirectory(path_);
}

void RemovePrivateDirectory(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace farandole::launcher
