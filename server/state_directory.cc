#include "server/state_directory.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/secrets/secrets.h"
#include "checkpoint/durable_file.h"
#include "server/registry/token_text.h"

namespace farandole {
namespace {

// A shorter token could be guessed.
constexpr size_t kMinTokenBytes = 32;
constexpr size_t kMaxTokenBytes = 256;

constexpr mode_t kDirectoryMode = 0700;

absl::Status Failed(absl::string_view what, const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path, ": ", strerror(error)));
}

bool WriteAll(int file, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// "root (0)", or the number alone where nobody has it.
std::string UserText(uid_t user) {
  struct passwd entry = {};
  struct passwd* found = nullptr;
  char buffer[4096];
  if (getpwuid_r(user, &entry, buffer, sizeof(buffer), &found) != 0 || found == nullptr) return absl::StrCat(user);
  return absl::StrCat(found->pw_name, " (", user, ")");
}

// As one word of a shell's command.
std::string ShellWord(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

absl::Status CheckOwnAndPrivate(const std::string& path) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) return Failed("use state directory", path, errno);
  if (!S_ISDIR(facts.st_mode)) return Failed("use state directory", path, ENOTDIR);
  // A directory inherits the group bit of the one above it; that gives nobody a right.
  const mode_t mode = facts.st_mode & ~static_cast<mode_t>(S_IFMT | S_ISGID);
  if (facts.st_uid == geteuid() && mode == kDirectoryMode) return absl::OkStatus();
  std::string command = absl::StrCat("chmod 0700 ", ShellWord(path));
  if (facts.st_uid != geteuid()) command = absl::StrCat("chown -R ", geteuid(), " ", ShellWord(path), " && ", command);
  return absl::FailedPreconditionError(absl::StrFormat(
      "state directory %s is owned by %s with mode %04o, and this coordinator runs as %s: it must be the coordinator's "
      "own with mode 0700, since it holds tokens; mend it with `%s`",
      path, UserText(facts.st_uid), mode, UserText(geteuid()), command));
}

absl::Status CheckPrivate(const std::string& path, absl::string_view what) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) return Failed("read", path, errno);
  if ((facts.st_mode & 077) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s file %s has mode %04o, so that others may read it; make it private with `chmod 600 %s`", what,
                      path, facts.st_mode & 07777, path));
}

}  // namespace

std::string NewToken() { return TokenText(absl::BytesToHexString(SecureRandomBytes(8)), SecureRandomBytes(32)); }

absl::StatusOr<StateDirectory> StateDirectory::Open(std::string path) {
  absl::StatusOr<StateDirectory> directory = Make(std::move(path));
  std::error_code error;
  if (!directory.ok() || !std::filesystem::exists(directory->restoring_path(), error)) return directory;
  return absl::FailedPreconditionError(
      absl::StrCat("state directory ", directory->path(),
                   " has a backup that was not restored to its end: restore it again (farandole store restore)"));
}

absl::StatusOr<StateDirectory> StateDirectory::OpenEmpty(std::string path) {
  absl::StatusOr<StateDirectory> directory = Make(std::move(path));
  if (!directory.ok()) return directory;
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(directory->path());
  if (!names.ok()) return absl::UnavailableError(names.status().message());
  std::error_code error;
  const bool was_begun = std::filesystem::exists(directory->restoring_path(), error);
  for (const std::string& name : *names) {
    // A file system's own.
    if (name == kRestoringFolder || name == "lost+found") continue;
    // A restoring puts these at their places, and ends with its folder.
    if (was_begun && (name == "token" || name == "key" || name == kStoreFolder)) continue;
    return absl::FailedPreconditionError(absl::StrCat("state directory ", directory->path(), " is not empty: it has ",
                                                      name, "; a backup is restored into an empty or a new one"));
  }
  return directory;
}

absl::StatusOr<StateDirectory> StateDirectory::Make(std::string path) {
  std::error_code error;
  const std::string parent = std::filesystem::absolute(path, error).parent_path().string();
  absl::Status made = MakeDirectories(parent);
  if (made.ok() && mkdir(path.c_str(), kDirectoryMode) == 0) {
    // mkdir takes the umask's bits away; chmod does not.
    made = chmod(path.c_str(), kDirectoryMode) == 0 ? SyncDirectory(parent)
                                                    : Failed("make private state directory", path, errno);
  } else if (made.ok() && errno != EEXIST) {
    made = Failed("make state directory", path, errno);
  }
  if (!made.ok()) return absl::UnavailableError(made.message());
  if (absl::Status own = CheckOwnAndPrivate(path); !own.ok()) return own;
  if (access(path.c_str(), R_OK | W_OK | X_OK) != 0) return Failed("use state directory", path, errno);
  return StateDirectory(std::move(path));
}

// A reader sees the old content or the new one, never a part.
absl::Status StateDirectory::WritePrivateFile(const std::string& path, absl::string_view content) {
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  // mkostemp makes the file with mode 0600, less the umask.
  const int file = mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) return Failed("write", path, errno);
  int error = fchmod(file, 0600) == 0 && WriteAll(file, content) && fsync(file) == 0 ? 0 : errno;
  if (close(file) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  unlink(temporary.c_str());
  return Failed("write", path, error);
}

absl::Status StateDirectory::Sync() const {
  const absl::Status synced = SyncDirectory(path_);
  return synced.ok() ? synced : absl::UnavailableError(synced.message());
}

absl::StatusOr<std::string> StateDirectory::EnsureToken() const {
  return EnsureSecret(token_path(), "token", NewToken());
}

absl::StatusOr<std::string> StateDirectory::EnsureKey() const {
  return EnsureSecret(key_path(), "key", absl::WebSafeBase64Escape(SecureRandomBytes(32)));
}

absl::Status StateDirectory::WriteToken(const std::string& token) const {
  absl::Status status = WritePrivateFile(token_path(), absl::StrCat(token, "\n"));
  return status.ok() ? Sync() : status;
}

absl::StatusOr<std::string> StateDirectory::EnsureSecret(const std::string& path, absl::string_view what,
                                                         const std::string& fresh) const {
  std::ifstream file(path);
  if (!file.is_open()) {
    if (errno != ENOENT) return Failed("read", path, errno);
    if (absl::Status status = WritePrivateFile(path, absl::StrCat(fresh, "\n")); !status.ok()) return status;
    return fresh;
  }
  if (absl::Status status = CheckPrivate(path, what); !status.ok()) return status;
  std::stringstream content;
  content << file.rdbuf();
  const std::string secret(absl::StripAsciiWhitespace(content.str()));
  if (secret.size() >= kMinTokenBytes && secret.size() <= kMaxTokenBytes) return secret;
  return absl::FailedPreconditionError(absl::StrCat(what, " file ", path, " holds ", secret.size(), " bytes, a ", what,
                                                    " has ", kMinTokenBytes, " to ", kMaxTokenBytes,
                                                    "; remove the file to get a new one"));
}

absl::Status StateDirectory::WriteAddress(const std::string& address) const {
  return WritePrivateFile(address_path(), absl::StrCat(address, "\n"));
}

void StateDirectory::RemoveAddress() const { unlink(address_path().c_str()); }

}  // namespace farandole
