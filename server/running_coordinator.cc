#include "server/running_coordinator.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/durable_file.h"

namespace farandole {
namespace {

constexpr size_t kMostFileBytes = 4096;
constexpr size_t kMostCertificateBytes = 1 << 20;

// RocksDB holds a POSIX lock on this file for as long as the database is open; the kernel ends it with the process.
absl::StatusOr<bool> IsHeld(const std::string& lock_file) {
  const int fd = open(lock_file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return false;
  if (fd < 0) return FileError(errno, "read", lock_file);
  const absl::Cleanup close_file = [fd] { close(fd); };
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(fd, F_GETLK, &lock) != 0) return FileError(errno, "ask for the lock of", lock_file);
  return lock.l_type != F_UNLCK;
}

}  // namespace

absl::StatusOr<RunningCoordinator> FindRunningCoordinator(const std::string& state_dir) {
  const absl::StatusOr<bool> is_held = IsHeld(state_dir + "/store/LOCK");
  if (!is_held.ok()) return is_held.status();
  const absl::Status nobody = absl::NotFoundError(absl::StrCat("no coordinator works in ", state_dir));
  if (!*is_held) return nobody;
  const absl::StatusOr<std::string> address = ReadSmallFile(state_dir + "/address", kMostFileBytes);
  if (absl::IsNotFound(address.status())) return nobody;  // it starts or ends
  if (!address.ok()) return address.status();
  RunningCoordinator found;
  found.address = std::string(absl::StripAsciiWhitespace(*address));
  found.token_file = state_dir + "/token";
  const absl::StatusOr<std::string> token = ReadSmallFile(found.token_file, kMostFileBytes);
  if (!token.ok()) return token.status();
  found.token = std::string(absl::StripAsciiWhitespace(*token));
  const std::string ca_file = state_dir + "/ca.pem";
  absl::StatusOr<std::string> ca = ReadSmallFile(ca_file, kMostCertificateBytes);
  if (absl::IsNotFound(ca.status())) return found;
  if (!ca.ok()) return ca.status();
  found.ca_file = ca_file;
  found.ca_pem = *std::move(ca);
  return found;
}

}  // namespace farandole
