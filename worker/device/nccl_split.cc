#include "worker/device/nccl_split.h"

#include <algorithm>

namespace farandole {

NcclSplit::NcclSplit(NcclCommunicator* all, const ProcessSets& sets,
                     const std::map<uint32_t, std::shared_ptr<NcclCommunicator>>& own)
    : all_(*all) {
  for (const auto& [number, ranks] : sets) {
    auto round = std::find_if(rounds_.begin(), rounds_.end(), [&ranks = ranks](const Round& one) {
      return std::none_of(ranks.begin(), ranks.end(), [&one](int rank) { return one.ranks.count(rank) > 0; });
    });
    if (round == rounds_.end()) round = rounds_.emplace(rounds_.end());
    round->ranks.insert(ranks.begin(), ranks.end());
    const int color = round->colors++;
    const auto found = own.find(number);
    if (found == own.end()) continue;
    round->own_color = color;
    round->own = found->second;
  }
}

absl::StatusOr<bool> NcclSplit::Advance() {
  while (true) {
    // Of both: NCCL says of the one that is split when it goes on, and of the new one when that can be used.
    absl::StatusOr<bool> settled = all_.IsSettled();
    if (!settled.ok() || !*settled) return settled;
    if (begun_ > 0 && rounds_[begun_ - 1].own != nullptr) {
      NcclCommunicator& own = *rounds_[begun_ - 1].own;
      settled = own.IsSettled();
      if (!settled.ok() || !*settled) return settled;
      own.SetConnected();
    }
    if (begun_ == rounds_.size()) return true;
    const Round& round = rounds_[begun_++];
    if (absl::Status status = all_.Split(round.own_color, round.own.get()); !status.ok()) return status;
  }
}

}  // namespace farandole
