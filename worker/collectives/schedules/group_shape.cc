#include "worker/collectives/schedules/group_shape.h"

#include <algorithm>
#include <numeric>

namespace farandole {

GroupShape::GroupShape(int position, absl::Span<const int> sizes, int most_direct_hosts)
    : position_(position), most_direct_hosts_(most_direct_hosts), sizes_(sizes.begin(), sizes.end()) {
  for (const int size : sizes_) {
    firsts_.push_back(size_);
    size_ += size;
  }
  host_ = HostOf(position);
  most_ = *std::max_element(sizes_.begin(), sizes_.end());
  least_ = *std::min_element(sizes_.begin(), sizes_.end());
}

int GroupShape::HostOf(int position) const {
  return static_cast<int>(std::upper_bound(firsts_.begin(), firsts_.end(), position) - firsts_.begin()) - 1;
}

std::vector<int> GroupShape::Column(int local) const {
  std::vector<int> column = firsts_;
  for (int& position : column) position += local;
  return column;
}

std::vector<int> GroupShape::Locals() const {
  std::vector<int> locals(local_size());
  std::iota(locals.begin(), locals.end(), first());
  return locals;
}

}  // namespace farandole
