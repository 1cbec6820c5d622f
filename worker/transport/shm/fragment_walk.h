#ifndef FARANDOLE_WORKER_TRANSPORT_SHM_FRAGMENT_WALK_H_
#define FARANDOLE_WORKER_TRANSPORT_SHM_FRAGMENT_WALK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "worker/core/collective.h"

namespace farandole {

// Visits the pieces of fragments that make up a range of the fused batch. Ranges are visited mostly in ascending order,
// so it remembers where the last one began. Borrows the fragments.
class FragmentWalk {
 public:
  FragmentWalk(absl::Span<const Fragment> fragments, size_t element_bytes)
      : fragments_(fragments), element_bytes_(element_bytes) {}

  // Calls visit(const char* input, char* output, int64_t from, int64_t count) for each piece of elements [begin, end);
  // `from` is relative to `begin`; no output: null. Without fragments nothing is visited.
  template <typename Visit>
  void ForEach(int64_t begin, int64_t end, const Visit& visit) {
    if (begin < start_) {
      index_ = 0;
      start_ = 0;
    }
    while (index_ < fragments_.size() && start_ + fragments_[index_].count <= begin)
      start_ += fragments_[index_++].count;
    int64_t start = start_;
    for (size_t index = index_; index < fragments_.size() && start < end; ++index) {
      const Fragment& fragment = fragments_[index];
      const int64_t from = std::max(begin, start);
      const int64_t to = std::min(end, start + fragment.count);
      const size_t offset = (from - start) * element_bytes_;
      if (to > from) {
        char* output = static_cast<char*>(fragment.output);
        visit(static_cast<const char*>(fragment.input) + offset, output == nullptr ? nullptr : output + offset,
              from - begin, to - from);
      }
      start += fragment.count;
    }
  }

 private:
  const absl::Span<const Fragment> fragments_;
  const size_t element_bytes_;
  size_t index_ = 0;
  int64_t start_ = 0;  // element at which fragment `index_` begins
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_SHM_FRAGMENT_WALK_H_
