#include "server/job/rank_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace farandole {

std::vector<size_t> OrderRanks(const std::vector<Candidate>& candidates) {
  // A host stands where its first worker stands: least launch index, then least index in the order of joining.
  using Place = std::pair<uint32_t, size_t>;
  absl::flat_hash_map<std::string, Place> hosts;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Place place(candidates[i].launch_index, i);
    const auto [it, is_new] = hosts.try_emplace(candidates[i].host_id, place);
    if (!is_new) it->second = std::min(it->second, place);
  }
  std::vector<std::pair<Place, Place>> keys(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    keys[i] = {hosts.at(candidates[i].host_id), Place(candidates[i].launch_index, i)};
  }
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&keys](size_t a, size_t b) { return keys[a] < keys[b]; });
  return order;
}

}  // namespace farandole
