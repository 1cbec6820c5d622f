#include "worker/measure/flight_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace farandole {

FlightMemory::FlightMemory(int fd) : fd_(fd) {
  const int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* const memory = mmap(nullptr, sizeof(FlightPage), PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) return;
  madvise(memory, sizeof(FlightPage), MADV_DONTFORK);
  page_ = static_cast<FlightPage*>(memory);
}

FlightMemory::~FlightMemory() {
  if (page_ != nullptr) munmap(page_, sizeof(FlightPage));
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::unique_ptr<FlightMemory>> FlightMemory::Create() {
  // A worker that makes it smaller would end whoever reads it.
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const int fd = memfd_create("farandole-flight", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, sizeof(FlightPage)) != 0 || fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a flight recorder: ", strerror(error)));
  }
  auto memory = absl::WrapUnique(new FlightMemory(fd));
  if (memory->page() == nullptr) return absl::ResourceExhaustedError("no memory for a flight recorder can be mapped");
  return memory;
}

std::unique_ptr<FlightMemory> FlightMemory::Open(const std::string& path) {
  struct stat found = {};
  int fd = path.empty() ? -1 : open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd >= 0 && (fstat(fd, &found) != 0 || found.st_size != static_cast<off_t>(sizeof(FlightPage)))) {
    close(fd);
    fd = -1;
  }
  return absl::WrapUnique(new FlightMemory(fd));
}

std::string FlightMemory::path() const { return absl::StrCat("/proc/", getpid(), "/fd/", fd_); }

}  // namespace farandole
