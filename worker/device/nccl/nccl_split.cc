#include "worker/device/nccl/nccl_split.h"

#include <algorithm>

namespace farandole {
namespace {

bool AreDisjoint(const std::vector<int>& ranks, const std::vector<int>& others) {
  return std::none_of(ranks.begin(), ranks.end(),
                      [&](int rank) { return std::binary_search(others.begin(), others.end(), rank); });
}

}  // namespace

std::vector<ProcessSets> DisjointSets(const ProcessSets& sets) {
  std::vector<ProcessSets> parts;
  for (const auto& set : sets) {
    auto part = std::find_if(parts.begin(), parts.end(), [&](const ProcessSets& one) {
      return std::all_of(one.begin(), one.end(),
                         [&](const auto& other) { return AreDisjoint(set.second, other.second); });
    });
    if (part == parts.end()) part = parts.emplace(parts.end());
    part->insert(set);
  }
  return parts;
}

absl::StatusOr<bool> NcclSplit::Advance() {
  while (true) {
    // NCCL tells by the one that is split how the split goes, and of the new one, where that went well, when it can be
    // used.
    absl::StatusOr<bool> settled = all_.IsSettled();
    if (!settled.ok() || !*settled) return settled;
    if (begun_ > 0) {
      NcclCommunicator& made = *parts_[begun_ - 1].made;
      settled = made.IsSettled();
      if (!settled.ok() || !*settled) return settled;
      made.SetConnected();
    }
    if (begun_ == parts_.size()) return true;
    const Part& part = parts_[begun_++];
    if (absl::Status status = all_.Split(part.color, part.made.get()); !status.ok()) return status;
  }
}

}  // namespace farandole
