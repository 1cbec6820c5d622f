#include "server/job/rules/rank_order.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace farandole {

std::vector<size_t> OrderRanks(const std::vector<Candidate>& candidates) {
  // Is new, old rank or launch index, index in the order of joining.
  using SortKey = std::tuple<bool, uint32_t, size_t>;
  const auto place_of = [&candidates](size_t i) {
    const Candidate& candidate = candidates[i];
    return SortKey(!candidate.old_rank.has_value(), candidate.old_rank.value_or(candidate.launch_index), i);
  };
  absl::flat_hash_map<std::string, SortKey> hosts;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto [it, is_new] = hosts.try_emplace(candidates[i].host_id, place_of(i));
    if (!is_new) it->second = std::min(it->second, place_of(i));
  }
  std::vector<std::pair<SortKey, SortKey>> keys(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) keys[i] = {hosts.at(candidates[i].host_id), place_of(i)};
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&keys](size_t a, size_t b) { return keys[a] < keys[b]; });
  return order;
}

}  // namespace farandole
