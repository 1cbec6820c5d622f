#include "server/state_directory.h"

#include <fcntl.h>
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

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/secrets/secrets.h"
#include "checkpoint/durable_file.h"
#include "server/registry/token_text.h"

namespace farandole {
namespace {

// A shorter token could be guessed.
constexpr size_t kMinTokenBytes = 32;
constexpr size_t kMaxTokenBytes = 256;

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

// A reader sees the old content or the new one, never a part.
absl::Status WriteAtomically(const std::string& path, absl::string_view content) {
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  // mkostemp makes the file with mode 0600.
  const int file = mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) return Failed("write", path, errno);
  int error = WriteAll(file, content) && fsync(file) == 0 ? 0 : errno;
  if (close(file) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  unlink(temporary.c_str());
  return Failed("write", path, error);
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
  std::error_code error;
  const std::string parent = std::filesystem::absolute(path, error).parent_path().string();
  absl::Status made = MakeDirectories(parent);
  if (made.ok() && mkdir(path.c_str(), 0700) == 0) {
    made = SyncDirectory(parent);
  } else if (made.ok() && errno != EEXIST) {
    made = Failed("make state directory", path, errno);
  }
  if (!made.ok()) return absl::UnavailableError(made.message());
  if (!std::filesystem::is_directory(path, error)) return Failed("use state directory", path, ENOTDIR);
  if (access(path.c_str(), R_OK | W_OK | X_OK) != 0) return Failed("use state directory", path, errno);
  return StateDirectory(std::move(path));
}

absl::Status StateDirectory::Sync() const {
  const absl::Status synced = SyncDirectory(path_);
  return synced.ok() ? synced : absl::UnavailableError(synced.message());
}

absl::StatusOr<std::string> StateDirectory::EnsureToken() const {
  return EnsureSecret(token_path(), "token", NewToken());
}

absl::StatusOr<std::string> StateDirectory::EnsureKey() const {
  return EnsureSecret(path_ + "/key", "key", absl::WebSafeBase64Escape(SecureRandomBytes(32)));
}

absl::Status StateDirectory::WriteToken(const std::string& token) const {
  absl::Status status = WriteAtomically(token_path(), absl::StrCat(token, "\n"));
  return status.ok() ? Sync() : status;
}

absl::StatusOr<std::string> StateDirectory::EnsureSecret(const std::string& path, absl::string_view what,
                                                         const std::string& fresh) const {
  std::ifstream file(path);
  if (!file.is_open()) {
    if (errno != ENOENT) return Failed("read", path, errno);
    if (absl::Status status = WriteAtomically(path, absl::StrCat(fresh, "\n")); !status.ok()) return status;
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
  return WriteAtomically(address_path(), absl::StrCat(address, "\n"));
}

void StateDirectory::RemoveAddress() const { unlink(address_path().c_str()); }

}  // namespace farandole
