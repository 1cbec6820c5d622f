#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_EPOCH_MEMORY_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_EPOCH_MEMORY_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farandole {

// Memory that the ranks of an epoch on one host map: zero at first, without a name in any file system, gone with the
// last process that has it. Children of fork(2) share none of it: they have a private mapping of the inherited pages.
class EpochMemory {
 public:
  // RESOURCE_EXHAUSTED: the system gives no more (its words are in the text).
  static absl::StatusOr<std::unique_ptr<EpochMemory>> Create(size_t bytes);
  // Maps a peer's memory; takes `fd` over. INVALID_ARGUMENT: it has not `bytes` bytes.
  static absl::StatusOr<std::unique_ptr<EpochMemory>> Map(int fd, size_t bytes);
  ~EpochMemory();
  EpochMemory(const EpochMemory&) = delete;
  EpochMemory& operator=(const EpochMemory&) = delete;

  // Makes sure that a part of it, which begins at a page, has memory: the first use of a page that is only mapped can
  // fail by a signal. RESOURCE_EXHAUSTED: the machine, or the process's control group, has not so much left.
  absl::Status Reserve(size_t offset, size_t bytes);
  // Forked children inherit this part, which begins at a page, and nothing else. A child's writes there are its own.
  // A page that it has not written yet shows the ranks' writes: fork(2) copies nothing, so it is no slower for it.
  void Inherit(size_t offset, size_t bytes);

  char* data() const { return data_; }
  int fd() const { return fd_; }

 private:
  friend class Inheritance;
  struct Part {
    size_t offset;
    size_t bytes;
  };
  EpochMemory(int fd, char* data, size_t bytes);
  // In a child of fork(2): its inherited memory becomes its own.
  void BecomePrivate();

  const int fd_;
  char* const data_;
  // The destructor unmaps these; a child may have other memory in the place of parts that it does not inherit.
  std::vector<Part> mapped_;
  std::vector<Part> inherited_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_EPOCH_MEMORY_H_
