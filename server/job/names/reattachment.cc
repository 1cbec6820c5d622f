#include "server/job/names/reattachment.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace farandole {

void Reattachment::DropRepeated(uint32_t rank) {
  const auto is_repeated = [rank](const Held& held) { return held.rank == rank && !held.message.has_slot_retired(); };
  const auto repeated = std::remove_if(held_.begin(), held_.end(), is_repeated);
  held_by_rank_[rank] -= held_.end() - repeated;
  held_.erase(repeated, held_.end());
}

Reattachment::Held Reattachment::TakeHeld() {
  Held held = std::move(held_.front());
  held_.pop_front();
  --held_by_rank_[held.rank];
  return held;
}

void Reattachment::Return(uint32_t rank, const v1::Hello& hello, absl::Time now) {
  if (missing_.erase(rank) > 0) until_ = std::max(until_, now + after_each_);
  DropRepeated(rank);
  ForgetGroupsOf(rank);
  back_.Insert(rank);
  for (const v1::Group& group : hello.groups()) knowing_[group.number()].Insert(rank);
}

void Reattachment::ForgetGroupsOf(uint32_t rank) {
  if (!back_.Erase(rank)) return;
  for (auto& [number, ranks] : knowing_) ranks.Erase(rank);
}

void Reattachment::Leave(uint32_t rank) {
  missing_.erase(rank);
  ForgetGroupsOf(rank);
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
  const bool all_know_all = absl::c_all_of(groups.groups(), [this](const auto& group) {
    const auto knowing = knowing_.find(group.first);
    return back_.IsEmpty() || (knowing != knowing_.end() && back_.IsWithin(knowing->second));
  });
  until_ = all_know_all ? now : now + kRepeatTime;
}

void Reattachment::Settle(GroupTable* groups, Negotiation* negotiation, OwedAnswers* owed, Notices* notices) const {
  const auto all_groups = groups->groups();
  absl::flat_hash_map<absl::Span<const uint32_t>, Askers> asking = AskersForGroups();
  const absl::flat_hash_map<uint32_t, RankSet> removing = AskersForRemovals();
  for (const auto& [number, ranks] : all_groups) {
    const auto known = knowing_.find(number);
    const RankSet knowing = known == knowing_.end() ? RankSet() : known->second;
    RankSet lacking = back_;
    lacking.Remove(knowing);
    Askers& askers = asking[ranks];
    // A rank that lacks a group and does not ask for it has seen its removal already.
    if (lacking.IsWithin(askers.ranks)) {
      for (const uint32_t rank : lacking.Ranks()) {
        // The request is spoken for; without room for the answer the rank's group is made once more.
        if (--askers.counts[rank] == 0) askers.ranks.Erase(rank);
        owed->AddGroups(rank, {groups->Tell(number)}).IgnoreError();
      }
      continue;
    }
    groups->Drop(number);
    negotiation->RemoveGroup(number, notices);
    const auto removers = removing.find(number);
    if (removers == removing.end()) continue;
    for (const uint32_t rank : removers->second.Ranks()) {
      if (knowing.Contains(rank)) owed->AddGroups(rank, {groups->Tell(number)}).IgnoreError();
    }
  }
}

absl::flat_hash_map<absl::Span<const uint32_t>, Reattachment::Askers> Reattachment::AskersForGroups() const {
  absl::flat_hash_map<absl::Span<const uint32_t>, Askers> askers;
  for (const Held& held : held_) {
    if (!held.message.has_group_request() || held.message.group_request().remove_group() != 0) continue;
    Askers& same = askers[held.message.group_request().ranks()];
    same.ranks.Insert(held.rank);
    ++same.counts[held.rank];
  }
  return askers;
}

absl::flat_hash_map<uint32_t, RankSet> Reattachment::AskersForRemovals() const {
  absl::flat_hash_map<uint32_t, RankSet> askers;
  for (const Held& held : held_) {
    if (held.message.has_group_request()) askers[held.message.group_request().remove_group()].Insert(held.rank);
  }
  return askers;
}

}  // namespace farandole
