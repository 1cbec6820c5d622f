#include "base/state_home.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// 0: a directory of this path can be written, or made. Otherwise errno.
int ErrorOfWriting(std::string path) {
  struct stat found = {};
  while (stat(path.c_str(), &found) != 0) {
    if (errno != ENOENT) return errno;
    path.resize(path.rfind('/'));
    if (path.empty()) path = "/";
  }
  if (!S_ISDIR(found.st_mode)) return ENOTDIR;
  return access(path.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

bool IsPrivate(const struct stat& found) {
  return S_ISDIR(found.st_mode) && found.st_uid == geteuid() && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

StateHome FindStateHome(const std::string& xdg_state_home, const std::string& home, const std::string& temporary) {
  std::string own;
  if (absl::StartsWith(xdg_state_home, "/")) {
    own = xdg_state_home;
  } else if (absl::StartsWith(home, "/")) {
    own = absl::StrCat(home == "/" ? "" : home, "/.local/state");
  }
  std::string why = "neither XDG_STATE_HOME nor HOME names a directory";
  if (!own.empty()) {
    const std::string folder = absl::StrCat(own, "/farandole");
    const int error = ErrorOfWriting(folder);
    if (error == 0) return {own, ""};
    why = absl::StrCat(folder, " cannot be written (", strerror(error), ")");
  }
  const std::string path = absl::StrCat(temporary, "/farandole-state-", geteuid());
  if (const absl::Status made = MakePrivateDirectory(path); !made.ok())
    return {"", absl::StrCat(why, ", and ", made.message(), "; set XDG_STATE_HOME, or name a --state-dir")};
  return {path, absl::StrCat(why, ", so state and checkpoint catalogue are kept in ", path,
                             ", for as long as temporary files are; --state-dir names a better place")};
}

std::string TemporaryDirectory(const std::string& tmpdir) {
  for (const std::string& directory : {tmpdir, std::string("/tmp"), std::string("/dev/shm")}) {
    struct stat found = {};
    if (!absl::StartsWith(directory, "/") || stat(directory.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) continue;
    if (access(directory.c_str(), W_OK | X_OK) == 0) return directory;
  }
  return "/tmp";
}

// Makes it first, and looks afterwards: where the directory above is sticky, nobody else can take the name from then
// on.
absl::Status MakePrivateDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::FailedPreconditionError(absl::StrCat("cannot make ", path, ": ", strerror(errno)));
  }
  struct stat found = {};
  if (lstat(path.c_str(), &found) == 0 && IsPrivate(found)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(path, " is not a directory that only this user can write"));
}

}  // namespace farandole
