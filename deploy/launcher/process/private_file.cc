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
namespace {

// Makes the file of this owner alone. 0, or the system's error, after which there is no part of it.
int WriteOwn(const std::string& path, absl::string_view content) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  int error = 0;
  while (!content.empty() && error == 0) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written >= 0) {
      content.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  close(fd);
  if (error != 0) unlink(path.c_str());
  return error;
}

}  // namespace

absl::Status WriteNewFile(const std::string& path, absl::string_view content) {
  const int error = WriteOwn(path, content);
  if (error == 0) return absl::OkStatus();
  if (error == EEXIST) return absl::AlreadyExistsError(absl::StrCat(path, " exists already"));
  return absl::FailedPreconditionError(absl::StrCat(path, " cannot be written: ", strerror(error)));
}

absl::Status WritePrivateFile(const std::string& path, absl::string_view content) {
  // Never through a link, nor into a file that another process could have open.
  unlink(path.c_str());
  const int error = WriteOwn(path, content);
  if (error == 0) return absl::OkStatus();
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
