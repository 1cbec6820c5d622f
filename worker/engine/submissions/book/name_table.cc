#include "worker/engine/submissions/book/name_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace farandole {
namespace {

// As Hello allows.
constexpr size_t kMaxTold = 65536;

}  // namespace

NameTable::NameTable(int rank, int size, size_t most_asked) : rank_(rank), most_asked_(most_asked) {
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  AddGroup(0, std::move(ranks), absl::OkStatus());
}

void NameTable::AddGroup(uint32_t number, std::vector<int> ranks, const absl::Status& broken) {
  Group group;
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank_);
  if (at != ranks.end() && *at == rank_) group.position = static_cast<int>(at - ranks.begin());
  group.ranks = std::move(ranks);
  group.broken = broken;
  groups_[number] = std::move(group);
  if (number == 0) all_ = &groups_[number];
  newest_group_ = std::max(newest_group_, number);
}

void NameTable::RemoveGroup(uint32_t number) {
  const auto found = groups_.find(number);
  if (found == groups_.end()) return;
  for (const auto& [key, name] : found->second.names) slots_.erase(name->slot);
  groups_.erase(found);
  if (number == 0) all_ = nullptr;
}

NameTable::Group* NameTable::FindGroup(uint32_t number) {
  if (number == 0) return all_;
  const auto found = groups_.find(number);
  return found == groups_.end() ? nullptr : &found->second;
}

const NameTable::Group* NameTable::FindGroup(uint32_t number) const {
  return const_cast<NameTable*>(this)->FindGroup(number);
}

bool NameTable::IsIdle(uint32_t number) const {
  const Group* const group = FindGroup(number);
  if (group == nullptr) return true;
  return std::all_of(group->names.begin(), group->names.end(),
                     [](const auto& entry) { return entry.second->outstanding == 0; });
}

NameTable::Name* NameTable::Find(uint32_t group, absl::string_view name) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return nullptr;
  const auto entry = found->second.names.find(name);
  return entry == found->second.names.end() ? nullptr : entry->second.get();
}

// Programs use their names in the same order again and again, or one of them all the time.
NameTable::Name* NameTable::Recall(Group* group, absl::string_view name) {
  Name* const last = group->last;
  if (last != nullptr) {
    if (last->name == name) return last;
    if (last->follower != nullptr && last->erased == group->erased && last->follower->name == name)
      return group->last = last->follower;
  }
  const auto found = group->names.find(name);
  if (found == group->names.end()) return nullptr;
  group->last = found->second.get();
  if (last != nullptr) {
    last->follower = group->last;
    last->erased = group->erased;
  }
  return group->last;
}

NameTable::Name* NameTable::FindOrAdd(Group* group, uint32_t number, absl::string_view name) {
  Name* const found = Recall(group, name);
  if (found != nullptr) return found;
  auto made = std::make_unique<Name>();
  made->name = std::string(name);
  made->group = number;
  return group->names.emplace(made->name, std::move(made)).first->second.get();
}

NameTable::Name* NameTable::InSlot(uint32_t slot) {
  const auto found = slots_.find(slot);
  return found == slots_.end() ? nullptr : found->second;
}

Submission* NameTable::TakePosted(uint32_t slot) {
  const auto found = slots_.find(slot);
  if (found == slots_.end() || found->second->posted.empty()) return nullptr;
  Submission* submission = found->second->posted.front();
  found->second->posted.pop_front();
  return submission;
}

void NameTable::SetSlot(Name* name, uint32_t slot) {
  name->slot = slot;
  name->told.reset();
  slots_[slot] = name;
}

NameTable::Name* NameTable::Retire(uint32_t slot) {
  const auto found = slots_.find(slot);
  if (found == slots_.end()) return nullptr;
  Name* const name = found->second;
  slots_.erase(found);
  name->slot = 0;
  name->retired_slot = slot;
  name->told.reset();
  if (name->outstanding > 0) return name;
  Group& group = groups_[name->group];
  if (group.last == name) group.last = nullptr;
  ++group.erased;
  group.names.erase(std::string(name->name));
  return nullptr;
}

std::vector<Submission*> NameTable::TakePending(uint32_t number) {
  std::vector<Submission*> taken;
  Group& group = groups_[number];
  group.asked = 0;
  group.unasked.clear();
  for (auto& [key, name] : group.names) {
    for (std::deque<Submission*>* queue : {&name->posted, &name->waiting}) {
      taken.insert(taken.end(), queue->begin(), queue->end());
      queue->clear();
    }
    name->asking = Name::Asking::kNot;
  }
  return taken;
}

bool NameTable::BeginAsking(Name* name) {
  Group& group = groups_[name->group];
  if (group.asked < most_asked_) {
    ++group.asked;
    name->asking = Name::Asking::kAsked;
    return true;
  }
  name->asking = Name::Asking::kQueued;
  group.unasked.push_back(name);
  return false;
}

NameTable::Name* NameTable::EndAsking(Name* name) {
  Group& group = groups_[name->group];
  const Name::Asking was = std::exchange(name->asking, Name::Asking::kNot);
  if (was == Name::Asking::kQueued) group.unasked.erase(std::find(group.unasked.begin(), group.unasked.end(), name));
  if (was != Name::Asking::kAsked) return nullptr;
  --group.asked;
  if (group.unasked.empty()) return nullptr;
  Name* const next = group.unasked.front();
  group.unasked.pop_front();
  ++group.asked;
  next->asking = Name::Asking::kAsked;
  return next;
}

bool NameTable::HasWaiting() const {
  for (const auto& [number, group] : groups_) {
    for (const auto& [key, name] : group.names) {
      if (!name->waiting.empty()) return true;
    }
  }
  return false;
}

uint32_t NameTable::unasked() const {
  size_t unasked = 0;
  for (const auto& [number, group] : groups_) unasked += group.unasked.size();
  return static_cast<uint32_t>(unasked);
}

std::vector<NameTable::SlotName> NameTable::Slots() const {
  std::vector<SlotName> slots;
  for (const auto& [number, name] : slots_) slots.push_back({name->name, name->group, number});
  return slots;
}

std::vector<Disagreement> NameTable::Told(uint32_t joins) const {
  std::vector<Disagreement> told;
  for (const auto& [number, group] : groups_) {
    for (const auto& [key, name] : group.names) {
      const bool is_due = name->told.has_value() && (name->told->disputed_slot != 0 || name->told->joins == joins);
      if (is_due && told.size() < kMaxTold) told.push_back(*name->told);
    }
  }
  return told;
}

std::map<uint32_t, std::vector<int>> NameTable::Ranks() const {
  std::map<uint32_t, std::vector<int>> ranks;
  for (const auto& [number, group] : groups_) {
    if (number != 0) ranks[number] = group.ranks;
  }
  return ranks;
}

}  // namespace farandole
