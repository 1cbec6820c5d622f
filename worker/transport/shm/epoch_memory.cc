#include "worker/transport/shm/epoch_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// The number at the front of a file of one; kNoLimit where there is none ("max").
uint64_t ReadNumber(const char* path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : kNoLimit;
}

// The bytes that this process can still get. The kernel would rather kill it than refuse.
uint64_t AvailableBytes() {
  uint64_t available = kNoLimit;
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    uint64_t kilobytes = 0;
    if (word == "MemAvailable:" && file >> kilobytes) available = kilobytes << 10;
  }
  const uint64_t limit = ReadNumber("/sys/fs/cgroup/memory.max");
  const uint64_t used = ReadNumber("/sys/fs/cgroup/memory.current");
  if (limit != kNoLimit && used != kNoLimit) available = std::min(available, limit - std::min(limit, used));
  return available;
}

}  // namespace

// The process's memory of epochs, for children to become independent of it. Never destroyed. A child must not find the
// lock taken by a thread that it does not have, so that fork(2) takes it.
class Inheritance {
 public:
  static Inheritance& OfProcess() {
    static Inheritance* const inheritance = new Inheritance();
    return *inheritance;
  }

  std::mutex& mutex() { return mutex_; }
  void Add(EpochMemory* memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.insert(memory);
  }
  void Remove(EpochMemory* memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.erase(memory);
  }

 private:
  Inheritance() {
    pthread_atfork([] { OfProcess().mutex_.lock(); }, [] { OfProcess().mutex_.unlock(); },
                   [] { OfProcess().BecomePrivate(); });
  }

  void BecomePrivate() {
    for (EpochMemory* memory : all_) memory->BecomePrivate();
    // The child's own children inherit from it as from any process.
    all_.clear();
    mutex_.unlock();
  }

  std::mutex mutex_;  // of the set, and of its members
  std::set<EpochMemory*> all_;
};

EpochMemory::EpochMemory(int fd, char* data, size_t bytes) : fd_(fd), data_(data), mapped_({{0, bytes}}) {
  Inheritance::OfProcess().Add(this);
}

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

absl::Status EpochMemory::Reserve(size_t offset, size_t bytes) {
  if (const uint64_t available = AvailableBytes(); bytes > available) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no shared memory of ", bytes, " bytes: ", available, " bytes are available"));
  }
  // As long as signals come in between, it has done a part.
  while (bytes > 0 && fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno == EINTR) continue;
    return absl::ResourceExhaustedError(absl::StrCat("no shared memory of ", bytes, " bytes: ", strerror(errno)));
  }
  return absl::OkStatus();
}

void EpochMemory::Inherit(size_t offset, size_t bytes) {
  const std::lock_guard<std::mutex> lock(Inheritance::OfProcess().mutex());
  madvise(data_ + offset, bytes, MADV_DOFORK);
  inherited_.push_back({offset, bytes});
}

void EpochMemory::BecomePrivate() {
  for (const Part& part : inherited_) {
    const void* own = mmap(data_ + part.offset, part.bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd_, static_cast<off_t>(part.offset));
    // A signal at the next use is better than writing into the memory of others.
    if (own == MAP_FAILED) mprotect(data_ + part.offset, part.bytes, PROT_NONE);
  }
  mapped_ = std::move(inherited_);
}

EpochMemory::~EpochMemory() {
  Inheritance::OfProcess().Remove(this);
  for (const Part& part : mapped_) munmap(data_ + part.offset, part.bytes);
  close(fd_);
}

}  // namespace farandole
