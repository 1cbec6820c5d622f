#include "server/job/names/reattachment.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/job/rules/actions.h"

namespace farandole {

void Reattachment::Return(uint32_t rank, const v1::Hello& hello) {
  missing_.erase(rank);
  const auto is_repeated = [rank](const Held& held) { return held.rank == rank && !held.message.has_slot_retired(); };
  const auto repeated = std::remove_if(held_.begin(), held_.end(), is_repeated);
  held_by_rank_[rank] -= held_.end() - repeated;
  held_.erase(repeated, held_.end());
  absl::btree_set<uint32_t>& known = groups_known_[rank];
  known.clear();
  for (const v1::Group& group : hello.groups()) known.insert(group.number());
}

void Reattachment::Leave(uint32_t rank) {
  missing_.erase(rank);
  groups_known_.erase(rank);
  held_.erase(std::remove_if(held_.begin(), held_.end(), [rank](const Held& held) { return held.rank == rank; }),
              held_.end());
}

absl::Status Reattachment::Hold(uint32_t rank, v1::WorkerMessage message) {
  size_t& count = held_by_rank_[rank];
  if (count >= most_per_rank_) {
    return absl::ResourceExhaustedError(absl::StrCat("rank ", rank, " has ", count,
                                                     " messages that wait for other ranks to come back; ",
                                                     most_per_rank_, " is the most"));
  }
  ByteCharge charge(bytes_, ByteKind::kNames);
  const auto bytes = static_cast<int64_t>(sizeof(Held) + message.SpaceUsedLong());
  if (absl::Status status = charge.Grow(bytes, ByteClass::kJob); !status.ok()) return status;
  ++count;
  held_.push_back({rank, std::move(message), std::move(charge)});
  return absl::OkStatus();
}

void Reattachment::AwaitRepeats(const GroupTable& groups, absl::Time now) {
  const bool all_know_all = absl::c_all_of(groups_known_, [&groups](const auto& entry) {
    return absl::c_all_of(groups.groups(), [&entry](const auto& group) { return entry.second.contains(group.first); });
  });
  until_ = all_know_all ? now : now + kRepeatTime;
}

void Reattachment::Settle(GroupTable* groups, Negotiation* negotiation, OwedAnswers* owed, Notices* notices) const {
  // Repeated requests that are spoken for, by rank and the ranks asked for.
  absl::btree_map<std::pair<uint32_t, std::vector<uint32_t>>, size_t> claims;
  const auto all_groups = groups->groups();
  for (const auto& [number, ranks] : all_groups) {
    std::vector<uint32_t> lacking, knowing;
    bool was_removed = false;
    for (const auto& [rank, known] : groups_known_) {
      if (known.contains(number)) {
        knowing.push_back(rank);
        continue;
      }
      lacking.push_back(rank);
      // A rank that lacks a group and does not ask for it has seen its removal already.
      size_t& claimed = claims[{rank, ranks}];
      if (claimed < HeldRequestsFor(rank, ranks)) {
        ++claimed;
      } else {
        was_removed = true;
      }
    }
    if (was_removed) {
      for (const uint32_t rank : knowing) owed->Add(rank, Share(groups->Assigned(number, {})));
      groups->Drop(number);
      negotiation->RemoveGroup(number, notices);
    } else {
      for (const uint32_t rank : lacking) owed->Add(rank, Share(groups->Assigned(number, ranks)));
    }
  }
}

size_t Reattachment::HeldRequestsFor(uint32_t rank, const std::vector<uint32_t>& ranks) const {
  return absl::c_count_if(held_, [rank, &ranks](const Held& held) {
    return held.rank == rank && held.message.has_group_request() && held.message.group_request().remove_group() == 0 &&
           absl::c_equal(held.message.group_request().ranks(), ranks);
  });
}

}  // namespace farandole
