#ifndef FARANDOLE_WORKER_TRANSPORT_EPOCH_MEMORY_H_
#define FARANDOLE_WORKER_TRANSPORT_EPOCH_MEMORY_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farandole {

// Memory that the ranks of an epoch on one host map: zero at first, without a name in any file system, gone with the
// last process that has it.
class EpochMemory {
 public:
  // RESOURCE_EXHAUSTED: the system gives no more (its words are in the text).
  static absl::StatusOr<std::unique_ptr<EpochMemory>> Create(size_t bytes);
  // Maps what a peer made; takes `fd` over. INVALID_ARGUMENT: it has not `bytes` bytes.
  static absl::StatusOr<std::unique_ptr<EpochMemory>> Map(int fd, size_t bytes);
  ~EpochMemory();
  EpochMemory(const EpochMemory&) = delete;
  EpochMemory& operator=(const EpochMemory&) = delete;

  // Makes sure that a part of it, which begins at a page, is there: what is only mapped fails at its first use, by a
  // signal. RESOURCE_EXHAUSTED: the machine, or the process's control group, has not so much left.
  absl::Status Reserve(size_t offset, size_t bytes);
  // A part that forked children inherit, since they may look at what lies there; all else they do not.
  void Inherit(size_t offset, size_t bytes);

  char* data() const { return data_; }
  int fd() const { return fd_; }

 private:
  EpochMemory(int fd, char* data, size_t bytes) : fd_(fd), data_(data), bytes_(bytes) {}

  int fd_;
  char* data_;
  size_t bytes_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_EPOCH_MEMORY_H_
