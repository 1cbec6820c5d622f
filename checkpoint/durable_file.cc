#include "checkpoint/durable_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"

namespace farandole {
namespace {

constexpr size_t kPieceBytes = 1 << 20;

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::StatusCode::kResourceExhausted;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case ENOTDIR:
    case EISDIR:
      return absl::StatusCode::kFailedPrecondition;
    case ENAMETOOLONG:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

// An open file; closed with the object.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags, mode_t mode = 0) {
    do {
      fd_ = open(path.c_str(), flags | O_CLOEXEC, mode);
    } while (fd_ < 0 && errno == EINTR);
  }
  ~OpenFile() { Close(); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int fd() const { return fd_; }
  // False with errno: the bytes written last are lost (network file systems say so only here).
  bool Close() {
    if (fd_ < 0) return true;
    const int fd = fd_;
    fd_ = -1;
    return close(fd) == 0;
  }

 private:
  int fd_ = -1;
};

bool WriteAll(int fd, absl::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(written);
  }
  return true;
}

// The bytes read, 0 at the end; -1 with errno.
ssize_t ReadPiece(int fd, char* buffer, size_t bytes) {
  ssize_t count = 0;
  do {
    count = read(fd, buffer, bytes);
  } while (count < 0 && errno == EINTR);
  return count;
}

absl::StatusOr<FileDigest> Digest(const std::string& path, bool sync) {
  // A pipe is not waited for.
  const OpenFile file(path, O_RDONLY | O_NONBLOCK);
  if (file.fd() < 0) return FileError(errno, "open", path);
  struct stat found = {};
  if (fstat(file.fd(), &found) != 0) return FileError(errno, "read", path);
  if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode))
    return absl::FailedPreconditionError(absl::StrCat("checkpoint ", path, " is not a file"));
  if (sync && fsync(file.fd()) != 0) return FileError(errno, "write", path);
  RunningSha256 sum;
  FileDigest digest;
  std::vector<char> piece(kPieceBytes);
  for (;;) {
    const ssize_t count = ReadPiece(file.fd(), piece.data(), piece.size());
    if (count < 0) return FileError(errno, "read", path);
    if (count == 0) break;
    sum.Add({piece.data(), static_cast<size_t>(count)});
    digest.size_bytes += count;
  }
  digest.sha256 = sum.Finish();
  return digest;
}

// With O_NONBLOCK, nothing but a regular file is read.
absl::StatusOr<std::string> ReadWhole(const std::string& path, int flags, size_t most_bytes) {
  const OpenFile file(path, flags);
  if (file.fd() < 0) return FileError(errno, "open", path);
  struct stat found = {};
  if (fstat(file.fd(), &found) != 0) return FileError(errno, "read", path);
  if ((flags & O_NONBLOCK) != 0 && !S_ISREG(found.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is no file"));
  }
  if (static_cast<uint64_t>(found.st_size) > most_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, " has ", found.st_size, " bytes; at most ", most_bytes, " are read"));
  }
  std::string content(most_bytes, '\0');
  size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t count = ReadPiece(file.fd(), &content[filled], content.size() - filled);
    if (count < 0) return FileError(errno, "read", path);
    if (count == 0) break;
    filled += count;
  }
  content.resize(filled);
  return content;
}

}  // namespace

absl::Status FileError(int error, absl::string_view what, absl::string_view path) {
  return absl::Status(CodeOf(error), absl::StrCat("cannot ", what, " ", path, ": ", strerror(error)));
}

absl::Status MakeDirectories(const std::string& path, mode_t mode) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    struct stat found = {};
    if (mkdir(part.c_str(), mode) == 0) {
      const size_t slash = part.rfind('/', part.find_last_not_of('/'));
      const std::string parent = slash == std::string::npos ? "." : part.substr(0, std::max<size_t>(slash, 1));
      if (absl::Status synced = SyncDirectory(parent); !synced.ok()) return synced;
    } else {
      const int error = errno;
      if (stat(part.c_str(), &found) != 0) return FileError(error, "make directory", part);
      if (!S_ISDIR(found.st_mode)) return FileError(ENOTDIR, "make directory", part);
    }
    if (end == std::string::npos) return absl::OkStatus();
  }
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& directory) {
  DIR* const listing = opendir(directory.c_str());
  if (listing == nullptr) return FileError(errno, "read directory", directory);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(listing)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(listing);
  return names;
}

absl::Status SyncDirectory(const std::string& directory) {
  const OpenFile file(directory, O_RDONLY | O_DIRECTORY);
  if (file.fd() < 0) return FileError(errno, "open directory", directory);
  // EINVAL: a file system that has nothing to do for it.
  if (fsync(file.fd()) != 0 && errno != EINVAL) return FileError(errno, "write directory", directory);
  return absl::OkStatus();
}

absl::Status RenameWithoutReplacing(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return absl::OkStatus();
  if (errno == EINVAL || errno == ENOSYS) return ClaimAndRename(from, to);
  // The source is missing: its directory was there.
  return FileError(errno, errno == ENOENT ? "rename" : "create", errno == ENOENT ? from : to);
}

absl::Status ClaimAndRename(const std::string& from, const std::string& to) {
  {
    const OpenFile claim(to, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (claim.fd() < 0) return FileError(errno, "create", to);
  }
  if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  unlink(to.c_str());
  return FileError(error, error == ENOENT ? "rename" : "create", error == ENOENT ? from : to);
}

absl::Status WriteFileAtomically(const std::string& path, const std::string& temporary, absl::string_view content) {
  // Left by a program that was killed, or put there by another user.
  unlink(temporary.c_str());
  OpenFile file(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
  if (file.fd() < 0) return FileError(errno, "create", temporary);
  if (WriteAll(file.fd(), content) && fsync(file.fd()) == 0 && file.Close() &&
      rename(temporary.c_str(), path.c_str()) == 0) {
    return absl::OkStatus();
  }
  const int error = errno;
  unlink(temporary.c_str());
  return FileError(error, "write", path);
}

absl::StatusOr<FileDigest> DigestFile(const std::string& path) { return Digest(path, false); }

absl::StatusOr<FileDigest> SyncAndDigestFile(const std::string& path) { return Digest(path, true); }

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t most_bytes) {
  return ReadWhole(path, O_RDONLY, most_bytes);
}

absl::StatusOr<std::string> ReadSmallRegularFile(const std::string& path, size_t most_bytes) {
  return ReadWhole(path, O_RDONLY | O_NONBLOCK, most_bytes);
}

}  // namespace farandole
