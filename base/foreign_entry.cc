#include "base/foreign_entry.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farandole {

absl::Status CheckOwner(const std::string& path) {
  struct stat entry = {};
  if (lstat(path.c_str(), &entry) != 0 || entry.st_uid == geteuid()) return absl::OkStatus();
  // In a namespace of users root may have another number.
  struct stat root = {};
  if (stat("/", &root) == 0 && root.st_uid == entry.st_uid) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("user ", entry.st_uid, " has put it there, who is neither this user (", geteuid(), ") nor root"));
}

absl::StatusOr<int> OpenToWrite(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  int fd = open(path.c_str(), kFlags | O_NOFOLLOW, 0666);
  if (fd < 0 && errno == ELOOP) {
    // A user's own link, or /dev/stdout.
    if (absl::Status status = CheckOwner(path); !status.ok()) return status;
    fd = open(path.c_str(), kFlags, 0666);
  }
  if (fd < 0) return absl::FailedPreconditionError(strerror(errno));
  return fd;
}

}  // namespace farandole
