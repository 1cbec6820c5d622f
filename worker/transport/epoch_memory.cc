#include "worker/transport/epoch_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace farandole {

absl::StatusOr<std::unique_ptr<EpochMemory>> EpochMemory::Create(size_t bytes) {
  const int fd = memfd_create("farandole-epoch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return absl::ResourceExhaustedError(absl::StrCat("no shared memory of ", bytes, " bytes: ", strerror(error)));
  }
  return Map(fd, bytes);
}

absl::StatusOr<std::unique_ptr<EpochMemory>> EpochMemory::Map(int fd, size_t bytes) {
  struct stat found = {};
  if (fstat(fd, &found) != 0 || found.st_size != static_cast<off_t>(bytes)) {
    close(fd);
    return absl::InvalidArgumentError(
        absl::StrCat("the epoch's shared memory has ", found.st_size, " bytes where ", bytes, " are expected"));
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    close(fd);
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", bytes, " bytes of shared memory: ", strerror(error)));
  }
  // A forked data loader must not keep the pages in its own copy's page tables, nor reach them.
  madvise(data, bytes, MADV_DONTFORK);
  return std::unique_ptr<EpochMemory>(new EpochMemory(fd, static_cast<char*>(data), bytes));
}

EpochMemory::~EpochMemory() {
  munmap(data_, bytes_);
  close(fd_);
}

}  // namespace farandole
