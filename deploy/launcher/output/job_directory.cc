#include "deploy/launcher/output/job_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/durable_file.h"

namespace farandole::launcher {
namespace {

constexpr int kMaxRunsOfOneName = 999;
// Tokens and checkpoints are the user's own.
constexpr mode_t kDirectoryMode = 0700;

// The pid that the lock's holder wrote into it.
std::string ReadHolder(int fd) {
  char text[32] = "";
  const ssize_t size = pread(fd, text, sizeof(text) - 1, 0);
  const absl::string_view holder(text, size > 0 ? static_cast<size_t>(size) : 0);
  return std::string(absl::StripAsciiWhitespace(holder));
}

bool WriteAll(int fd, const std::string& text) {
  return write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace

JobDirectory::JobDirectory(std::string path, std::string job, int lock_fd)
    : path_(std::move(path)), job_(std::move(job)), lock_fd_(lock_fd) {}

JobDirectory::JobDirectory(JobDirectory&& other) noexcept
    : path_(other.path_), job_(other.job_), lock_fd_(std::exchange(other.lock_fd_, -1)) {}

JobDirectory::~JobDirectory() {
  if (lock_fd_ >= 0) close(lock_fd_);
}

absl::StatusOr<JobDirectory> JobDirectory::Open(const std::string& path, const std::string& job) {
  const absl::Status made = farandole::MakeDirectories(path, kDirectoryMode);
  if (!made.ok()) return made;
  const std::string lock = absl::StrCat(path, "/launcher.lock");
  const int fd = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return absl::PermissionDeniedError(absl::StrCat("cannot write ", lock, ": ", strerror(errno)));
  // Where another user may write in the directory, the file may be one that is not ours to write, by a link.
  struct stat about;
  if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_uid != geteuid() || about.st_nlink != 1) {
    close(fd);
    return absl::PermissionDeniedError(absl::StrCat(lock, " is not a file of user ", geteuid(),
                                                    "'s own that has one name; remove it, or name another ",
                                                    "--state-dir"));
  }
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const std::string holder = ReadHolder(fd);
    close(fd);
    if (error != EWOULDBLOCK) {
      return absl::PermissionDeniedError(absl::StrCat("cannot lock ", lock, ": ", strerror(error)));
    }
    return absl::AlreadyExistsError(absl::StrCat("job '", job, "' is running already: the launcher with pid ", holder,
                                                 " holds ", path, "; end it, or name another --job or --state-dir"));
  }
  if (ftruncate(fd, 0) != 0 || !WriteAll(fd, absl::StrCat(getpid(), "\n"))) {
    const int error = errno;
    close(fd);
    return absl::PermissionDeniedError(absl::StrCat("cannot write ", lock, ": ", strerror(error)));
  }
  return JobDirectory(path, job, fd);
}

absl::StatusOr<JobDirectory> JobDirectory::OpenNext(const std::string& jobs, const std::string& name) {
  for (int number = 1;; ++number) {
    const std::string job = number == 1 ? name : absl::StrCat(name, "-", number);
    absl::StatusOr<JobDirectory> opened = Open(absl::StrCat(jobs, "/", job), job);
    if (opened.ok() || !absl::IsAlreadyExists(opened.status()) || number == kMaxRunsOfOneName) return opened;
  }
}

}  // namespace farandole::launcher
