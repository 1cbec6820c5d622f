#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_GROUP_SHAPE_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_GROUP_SHAPE_H_

#include <vector>

#include "absl/types/span.h"

namespace farandole {

// How a group's positions lie on hosts, seen from one of them: host h has the next `sizes[h]` positions, and the first
// of them is its leader.
class GroupShape {
 public:
  // More hosts than this would exchange too many messages if each did with all others.
  static constexpr int kMostDirectHosts = 8;

  // `sizes`: at least 1 each; `position` is below their sum.
  GroupShape(int position, absl::Span<const int> sizes, int most_direct_hosts = kMostDirectHosts);

  int position() const { return position_; }
  // Positions in the group.
  int size() const { return size_; }
  int hosts() const { return static_cast<int>(sizes_.size()); }
  int most_on_a_host() const { return most_; }
  int least_on_a_host() const { return least_; }
  // Each host exchanges with all others, which adds in the order of hosts; else with a few.
  bool is_direct() const { return hosts() <= most_direct_hosts_; }
  int HostOf(int position) const;
  int FirstOf(int host) const { return firsts_[host]; }
  int SizeOf(int host) const { return sizes_[host]; }

  // This position's host and its index among the positions there.
  int host() const { return host_; }
  int local() const { return position_ - firsts_[host_]; }
  int first() const { return firsts_[host_]; }
  int local_size() const { return sizes_[host_]; }
  bool leads() const { return local() == 0; }

  // The positions with index `local`, one on each host, which must have it.
  std::vector<int> Column(int local) const;
  // The positions of this host.
  std::vector<int> Locals() const;

 private:
  int position_;
  int most_direct_hosts_;
  std::vector<int> sizes_;
  std::vector<int> firsts_;
  int size_ = 0;
  int host_ = 0;
  int most_ = 0;
  int least_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_GROUP_SHAPE_H_
