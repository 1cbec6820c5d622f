#include "worker/core/hosts.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace farandole {

absl::StatusOr<Hosts> Hosts::WithIds(absl::Span<const std::string> ids) {
  Hosts hosts;
  std::map<std::string, int> last_rank_of;
  for (int rank = 0; rank < static_cast<int>(ids.size()); ++rank) {
    const auto [found, is_new] = last_rank_of.try_emplace(ids[rank], rank);
    if (is_new) {
      hosts.leaders_.push_back(rank);
    } else if (found->second != rank - 1) {
      return absl::InternalError(absl::StrCat("ranks ", found->second, " and ", rank, " are on one host, but rank ",
                                              rank - 1, " between them is not"));
    }
    found->second = rank;
    hosts.host_of_.push_back(hosts.count() - 1);
  }
  return hosts;
}

Hosts Hosts::WithSizes(absl::Span<const int> sizes) {
  Hosts hosts;
  for (const int size : sizes) {
    FD_CHECK_LE(1, size) << "a host has ranks";
    hosts.leaders_.push_back(hosts.size());
    hosts.host_of_.insert(hosts.host_of_.end(), size, hosts.count() - 1);
  }
  return hosts;
}

Hosts Hosts::Apart(int size) { return WithSizes(std::vector<int>(size, 1)); }

std::vector<int> Hosts::Shape(absl::Span<const int> ranks) const {
  std::vector<int> shape;
  int host = -1;
  for (const int rank : ranks) {
    if (HostOf(rank) != host) shape.push_back(0);
    host = HostOf(rank);
    ++shape.back();
  }
  return shape;
}

std::vector<int> LocalRanks(absl::Span<const int> slots) {
  const auto size = static_cast<int>(slots.size());
  std::vector<int> local_ranks(size, -1);
  std::vector<bool> is_taken(size, false);
  std::vector<int> others;
  for (int i = 0; i < size; ++i) {
    if (slots[i] >= size || is_taken[slots[i]]) {
      others.push_back(i);
    } else {
      local_ranks[i] = slots[i];
      is_taken[slots[i]] = true;
    }
  }
  std::stable_sort(others.begin(), others.end(), [slots](int a, int b) { return slots[a] < slots[b]; });
  auto next = is_taken.begin();
  for (const int i : others) {
    next = std::find(next, is_taken.end(), false);
    local_ranks[i] = static_cast<int>(next++ - is_taken.begin());
  }
  return local_ranks;
}

}  // namespace farandole
