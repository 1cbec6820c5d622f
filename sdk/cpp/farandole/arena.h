#ifndef FARANDOLE_SDK_CPP_FARANDOLE_ARENA_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "farandole/job.h"

namespace farandole {
inline namespace sdk {

/// Memory of zeros that the ranks of one host reduce in place, several times as fast as other memory: an
/// AllreduceInPlace of tensors that lie at equal offsets on all ranks copies nothing. It serves one epoch: if the epoch
/// has ended by an error, copy the tensors that must live. The destructor unmaps it; no tensor in it may be used
/// afterwards.
class Arena {
 public:
  Arena() = default;
  Arena(Arena&& other) noexcept
      : functions_(other.functions_), arena_(std::exchange(other.arena_, nullptr)), bytes_(other.bytes_) {}
  Arena& operator=(Arena&& other) noexcept {
    std::swap(functions_, other.functions_);
    std::swap(arena_, other.arena_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Arena() {
    if (arena_ != nullptr) functions_->arena_release(arena_);
  }

  /// Makes one of `bytes` bytes on each rank of the set. Collective: all of them call it with the same name and bytes,
  /// in the same order among their calls. Blocks.
  /// - INVALID_ARGUMENT: the ranks ask for different numbers of bytes (two ranks and both numbers are named)
  /// - UNIMPLEMENTED: the ranks are on several hosts, or exchange bulk data over the network
  /// - RESOURCE_EXHAUSTED: a rank (named) has not so much memory left
  static StatusOr<Arena> Make(Job& job, const std::string& name, int64_t bytes, const ProcessSet& set = {}) {
    if (Status status = set.Check(); !status.ok()) return status;
    Arena made;
    made.functions_ = &job.functions();
    made.bytes_ = bytes;
    const int code = job.functions().arena_create(name.c_str(), bytes, set.group(), &made.arena_, job.interrupted());
    if (code != FARANDOLE_OK) return StatusOf(job.functions(), code);
    return made;
  }

  /// At a page's begin.
  void* data() const { return functions_->arena_address(arena_); }
  int64_t bytes() const { return bytes_; }
  /// `count` elements from the byte `offset` on, which is a multiple of their size. INVALID_ARGUMENT: they do not lie
  /// in the arena.
  template <typename T>
  StatusOr<T*> At(int64_t offset, int64_t count) const {
    const auto size = static_cast<int64_t>(sizeof(T));
    if (offset < 0 || count < 0 || offset % size != 0 || offset > bytes_ || count > (bytes_ - offset) / size) {
      return Status(StatusCode::kInvalidArgument, "an arena of " + std::to_string(bytes_) + " bytes has no " +
                                                      std::to_string(count) + " elements of " + std::to_string(size) +
                                                      " bytes at " + std::to_string(offset));
    }
    return reinterpret_cast<T*>(static_cast<char*>(data()) + offset);
  }

 private:
  const Functions* functions_ = nullptr;
  farandole_arena* arena_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_ARENA_H_
