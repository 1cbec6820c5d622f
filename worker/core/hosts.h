#ifndef FARANDOLE_WORKER_CORE_HOSTS_H_
#define FARANDOLE_WORKER_CORE_HOSTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace farandole {

// Which ranks of an epoch share a host. Ranks of a host are neighbours, hosts are numbered in the order of their ranks,
// and a host's first rank is its leader: rank 0 leads host 0. Immutable.
class Hosts {
 public:
  // No ranks.
  Hosts() = default;
  // `ids`: each rank's host identity.
  //   INTERNAL: ranks of one host are not neighbours (named)
  static absl::StatusOr<Hosts> WithIds(absl::Span<const std::string> ids);
  // `sizes`: ranks of each host, at least one.
  static Hosts WithSizes(absl::Span<const int> sizes);
  // Every rank on a host of its own: for ranks that may not share memory.
  static Hosts Apart(int size);

  int size() const { return static_cast<int>(host_of_.size()); }
  int count() const { return static_cast<int>(leaders_.size()); }
  int HostOf(int rank) const { return host_of_[rank]; }
  int LocalIndex(int rank) const { return rank - leaders_[host_of_[rank]]; }
  int Leader(int host) const { return leaders_[host]; }
  int RanksOn(int host) const { return (host + 1 < count() ? leaders_[host + 1] : size()) - leaders_[host]; }

  // For each host with ranks of the group, how many: the group's positions, cut at the hosts' bounds. `ranks` ascend.
  std::vector<int> Shape(absl::Span<const int> ranks) const;

 private:
  std::vector<int> host_of_;
  std::vector<int> leaders_;
};

// The local ranks of a host's workers, 0 to one less than their number. `slots` are their places on the host, in the
// order of their ranks. A rank whose place is a local rank gets that one, so that it is the same in all epochs, and no
// other rank gets it while there is no other loss. The others, and the later ones of several with one place, get the
// remaining local ranks, by their places.
std::vector<int> LocalRanks(absl::Span<const int> slots);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CORE_HOSTS_H_
