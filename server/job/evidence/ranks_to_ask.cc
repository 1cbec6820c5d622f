#include "server/job/evidence/ranks_to_ask.h"

#include <cstddef>

#include "server/job/rules/rank_set.h"

namespace farandole {
namespace {

constexpr size_t kMostMissing = 64;
constexpr size_t kMostOthers = 64;

}  // namespace

std::vector<uint32_t> RanksToAsk(const std::vector<uint32_t>& missing, const std::vector<uint32_t>& blamed,
                                 uint32_t size) {
  RankSet chosen;
  const auto add = [&](uint32_t rank, size_t most) {
    if (rank < size && chosen.count() < most) chosen.Insert(rank);
  };
  for (const uint32_t rank : missing) add(rank, kMostMissing);
  const size_t most = chosen.count() + kMostOthers;
  for (const uint32_t rank : blamed) add(rank, most);
  for (uint32_t rank = 0; rank < size && chosen.count() < most; ++rank) add(rank, most);
  return chosen.Ranks();
}

}  // namespace farandole
