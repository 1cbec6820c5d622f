#include "base/foreign_entry.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace farandole {

namespace {

bool IsRoot(uid_t user) {
  // In a namespace of users root may have another number.
  struct stat root = {};
  return stat("/", &root) == 0 && root.st_uid == user;
}

// Whether a file that this process makes beside `path` belongs to `user`: a file server may give root, or everybody,
// another number.
bool OwnsWhatIsMadeBeside(const std::string& path, uid_t user) {
  const size_t slash = path.rfind('/');
  const absl::string_view directory = slash == std::string::npos ? "." : absl::string_view(path).substr(0, slash + 1);
  std::string probe = absl::StrCat(directory, "/.farandole.XXXXXX");
  const int fd = mkostemp(probe.data(), O_CLOEXEC);
  if (fd < 0) return false;
  struct stat made = {};
  const bool is_owned = fstat(fd, &made) == 0 && made.st_uid == user;
  close(fd);
  unlink(probe.c_str());
  return is_owned;
}

}  // namespace

absl::Status CheckOwner(const std::string& path) {
  struct stat entry = {};
  if (lstat(path.c_str(), &entry) != 0 || entry.st_uid == geteuid()) return absl::OkStatus();
  if (IsRoot(entry.st_uid) || OwnsWhatIsMadeBeside(path, entry.st_uid)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("it belongs to user ", entry.st_uid, ", who is neither this user (", geteuid(), ") nor root"));
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
