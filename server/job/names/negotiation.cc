#include "server/job/names/negotiation.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/job/rules/agreement.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// Of a sentence that a member was told before, which had a name and two shapes.
constexpr size_t kMostToldBytes = 4096;
// Of a statement beside its Ready and the names in its keys; of a slot in its two tables, beside its name.
constexpr size_t kStatementBytes = 512;
constexpr size_t kSlotBytes = 256;
// Of one name: in pending_, oldest_first_, lacking_slot_ and complete_.
constexpr size_t kKeys = 4;

int64_t BytesOf(const v1::SlotAssigned& slot) { return static_cast<int64_t>(kSlotBytes + 2 * slot.name().size()); }

}  // namespace

Negotiation::Negotiation(uint64_t epoch, uint32_t max_slots, uint32_t first_slot, const GroupTable& groups,
                         std::shared_ptr<ByteAccount> bytes)
    : epoch_(epoch),
      max_slots_(max_slots),
      groups_(groups),
      first_slot_(first_slot),
      bytes_(std::move(bytes)),
      next_slot_(first_slot),
      slots_charge_(bytes_, ByteKind::kNames),
      told_charge_(bytes_, ByteKind::kNames) {}

bool Negotiation::SameStatement(const Statement& a, const Statement& b) {
  if (!a.fault.empty() || !b.fault.empty()) return a.fault == b.fault;
  return Agree(a.ready, b.ready);
}

void Negotiation::Join(uint32_t rank, uint32_t joins, Notices* notices) {
  SetJoined(rank, joins);
  Work(notices);
}

bool Negotiation::IsExcused(uint32_t rank, const Key& key) const {
  // In a dispute every rank speaks that has submitted the tensor, also before joining.
  if (std::get<2>(key) != 0) return false;
  const auto joined = joined_.find(rank);
  return joined != joined_.end() && joined->second >= std::get<4>(key);
}

void Negotiation::SetJoined(uint32_t rank, std::optional<uint32_t> joins) {
  // -1: it has not joined.
  const auto known = joined_.find(rank);
  const int64_t before = known == joined_.end() ? int64_t{-1} : int64_t{known->second};
  const int64_t after = joins.has_value() ? int64_t{*joins} : int64_t{-1};
  if (before == after) return;
  if (joins.has_value()) {
    joined_[rank] = *joins;
  } else {
    joined_.erase(known);
  }
  for (auto& [key, pending] : pending_) {
    const int64_t joins_of_name = std::get<4>(key);
    const bool was_excused = before >= joins_of_name;
    const bool is_excused = after >= joins_of_name;
    if (was_excused == is_excused || std::get<2>(key) != 0 || pending.ballot.Has(rank)) continue;
    if (!groups_.Contains(std::get<0>(key), rank)) continue;
    is_excused ? ++pending.excused : --pending.excused;
    if (!is_excused || pending.is_complete != 0 || !IsComplete(key, pending)) continue;
    pending.is_complete = ++last_place_;
    complete_.emplace(pending.is_complete, key);
  }
}

bool Negotiation::IsComplete(const Key& key, const Pending& pending) const {
  const std::vector<uint32_t>& ranks = *groups_.Find(std::get<0>(key));
  const size_t wanted = pending.disputants > 0 ? std::min<size_t>(pending.disputants, ranks.size()) : ranks.size();
  return pending.ballot.count() + pending.excused >= wanted;
}

void Negotiation::Add(uint32_t rank, const v1::Ready& ready, absl::Time now, Notices* notices) {
  if (ready.op() == v1::OP_TYPE_JOIN) return Join(rank, ready.joins(), notices);
  const auto joined = joined_.find(rank);
  if (joined != joined_.end() && joined->second < ready.joins()) SetJoined(rank, std::nullopt);
  if (ready.disputed_slot() == 0) {
    const auto known = slot_of_.find(Name(ready.group(), ready.name()));
    if (known != slot_of_.end() && known->second != ready.retired_slot()) {
      v1::CoordinatorMessage message;
      *message.mutable_slot_assigned() = slots_.at(known->second);
      notices->push_back({{rank}, std::move(message)});
      return;
    }
    if (known != slot_of_.end()) Retire(known->second, notices);
  }
  if (auto told = ToldBefore(ready); told.has_value()) return notices->push_back({{rank}, *std::move(told), true});
  const Key key(ready.group(), ready.name(), ready.disputed_slot(),
                ready.disputed_slot() == 0 ? ready.ordinal() : ready.attempt(),
                ready.disputed_slot() == 0 ? ready.joins() : 0);
  if (std::string refusal = Refusal(rank, ready, key); !refusal.empty()) {
    notices->push_back({{rank}, MismatchFor(key, refusal, false), true});
    return;
  }
  const std::vector<uint32_t>& ranks = *groups_.Find(ready.group());
  Statement statement{ready, FaultOf(ready, ranks.size())};
  if (!statement.fault.empty()) {
    statement.ready.clear_shape();
    statement.ready.clear_grouped_shapes();
  }
  if (std::string refusal = ChargeFor(rank, key, &statement); !refusal.empty()) {
    notices->push_back({{rank}, MismatchFor(key, refusal, false), true});
    return;
  }
  const auto [it, is_new] = pending_.try_emplace(key);
  Pending& pending = it->second;
  if (is_new) {
    pending.since = now;
    oldest_first_.emplace(now, key);
    for (const auto& [other, joins] : joined_)
      pending.excused += IsExcused(other, key) && groups_.Contains(ready.group(), other) ? 1 : 0;
  }
  if (!pending.ballot.Has(rank) && IsExcused(rank, key)) --pending.excused;
  pending.ballot.Cast(rank, std::move(statement), SameStatement);
  pending.disputants = std::max(pending.disputants, ready.disputants());
  if (IsComplete(key, pending)) Decide(key, notices);
}

std::string Negotiation::Refusal(uint32_t rank, const v1::Ready& ready, const Key& key) const {
  const std::vector<uint32_t>* ranks = groups_.Find(ready.group());
  if (ranks == nullptr)
    return absl::StrCat("rank ", rank, " names group ", ready.group(), ", and there is no such group");
  if (!groups_.Contains(ready.group(), rank)) {
    return absl::StrCat("rank ", rank, " is not in group ", ready.group(), " of ", ShowRanks(*ranks));
  }
  const auto disputed = slots_.find(ready.disputed_slot());
  if (disputed != slots_.end() &&
      (disputed->second.name() != ready.name() || disputed->second.group() != ready.group())) {
    return absl::StrCat("rank ", rank, " disputes slot ", ready.disputed_slot(), ", which is ",
                        Plain(disputed->second.name()), " of group ", disputed->second.group());
  }
  if (pending_.size() >= max_slots_ && !pending_.contains(key)) {
    return absl::StrCat("rank ", rank, " adds a name while ", pending_.size(), " names wait for other ranks; ",
                        max_slots_, " is the most (--max-slots, FARANDOLE_MAX_SLOTS)");
  }
  return "";
}

std::string Negotiation::ChargeFor(uint32_t rank, const Key& key, Statement* statement) const {
  if (bytes_ == nullptr) return "";
  // The ranks that agree with it are kept twice: by the statement, and by its ballot.
  const size_t keys = kKeys * std::get<1>(key).size();
  const auto bytes = static_cast<int64_t>(kStatementBytes + keys + statement->ready.SpaceUsedLong()) +
                     2 * RankSet::BytesFor(groups_.Find(0)->size());
  statement->charge = ByteCharge(bytes_, ByteKind::kNames);
  const absl::Status status = statement->charge.Grow(bytes, ByteClass::kJob);
  if (status.ok()) return "";
  // An equal statement is kept once, so that a rank that agrees is not refused.
  const auto pending = pending_.find(key);
  if (pending != pending_.end()) {
    for (const auto& choice : pending->second.ballot.choices()) {
      if (SameStatement(choice.value, *statement)) return "";
    }
  }
  return absl::StrCat("rank ", rank, " adds a name for which there is no room: ", status.message());
}

void Negotiation::Decide(const Key& key, Notices* notices) {
  Pending& pending = pending_.at(key);
  if (std::string fault = FaultOfBallot(key, pending.ballot); !fault.empty()) {
    notices->push_back({*groups_.Find(std::get<0>(key)), MismatchFor(key, fault, true)});
    return Forget(key);
  }
  if (slots_.size() >= max_slots_) {
    if (pending.lacks_slot != 0) return;
    pending.lacks_slot = ++last_place_;
    lacking_slot_.emplace(pending.lacks_slot, key);
    return;
  }
  Assign(key, pending.ballot.First().value.ready.op(), notices);
  Forget(key);
}

void Negotiation::Assign(const Key& key, v1::OpType op, Notices* notices) {
  const std::vector<uint32_t>& ranks = *groups_.Find(std::get<0>(key));
  v1::SlotAssigned slot;
  slot.set_epoch(epoch_);
  slot.set_name(std::get<1>(key));
  slot.set_group(std::get<0>(key));
  slot.set_slot(next_slot_++);
  slot.set_op(op);
  told_of_name_.erase(Name(slot.group(), slot.name()));
  Keep(slot);
  std::vector<uint32_t> audience = ranks;
  if (audience.front() != 0) audience.insert(audience.begin(), 0);
  v1::CoordinatorMessage message;
  *message.mutable_slot_assigned() = std::move(slot);
  notices->push_back({std::move(audience), std::move(message)});
}

std::string Negotiation::FaultOfBallot(const Key& key, const Ballot<Statement>& ballot) const {
  const Ballot<Statement>::Choice* faulty = nullptr;
  for (const auto& choice : ballot.choices()) {
    if (!choice.value.fault.empty() && (faulty == nullptr || choice.lowest() < faulty->lowest())) faulty = &choice;
  }
  if (faulty != nullptr) return absl::StrCat("rank ", faulty->lowest(), " ", faulty->value.fault);
  const auto& first = ballot.First();
  if (const auto* second = ballot.Second(); second != nullptr) {
    return Disagreement(first.lowest(), first.value.ready, second->lowest(), second->value.ready);
  }
  if (const uint32_t disputed = std::get<2>(key); disputed != 0) {
    return absl::StrCat("the ranks' signatures for slot ", disputed,
                        " differ though their descriptions agree (an internal error)");
  }
  return "";
}

void Negotiation::Forget(const Key& key) {
  const auto it = pending_.find(key);
  oldest_first_.erase({it->second.since, key});
  lacking_slot_.erase(it->second.lacks_slot);
  complete_.erase(it->second.is_complete);
  pending_.erase(it);
}

void Negotiation::Retire(uint32_t slot, Notices* notices) {
  Free(slot);
  Work(notices);
}

void Negotiation::Work(Notices* notices) {
  size_t sends = 0;
  for (size_t pieces = 0; HasWork() && sends + pieces < kMostSends; ++pieces) {
    const size_t before = notices->size();
    WorkOnce(notices);
    for (size_t i = before; i < notices->size(); ++i) sends += (*notices)[i].ranks.size();
  }
}

void Negotiation::WorkOnce(Notices* notices) {
  if (!removed_groups_.empty()) return ForgetOneOf(removed_groups_.front(), notices);
  const bool is_complete = !complete_.empty();
  absl::btree_map<uint64_t, Key>& keys = is_complete ? complete_ : lacking_slot_;
  const Key key = std::move(keys.begin()->second);
  keys.erase(keys.begin());
  Pending& pending = pending_.at(key);
  (is_complete ? pending.is_complete : pending.lacks_slot) = 0;
  if (groups_.Find(std::get<0>(key)) == nullptr) return;
  // A rank that had joined may go on meanwhile, and is awaited again.
  if (!is_complete || IsComplete(key, pending)) Decide(key, notices);
}

void Negotiation::Keep(const v1::SlotAssigned& slot) {
  slot_of_[Name(slot.group(), slot.name())] = slot.slot();
  slots_charge_.Resize(slots_charge_.bytes() + BytesOf(slot));
  slots_by_group_.insert({slot.group(), slot.slot()});
  slots_[slot.slot()] = slot;
}

void Negotiation::Free(uint32_t slot) {
  const auto it = slots_.find(slot);
  if (it == slots_.end()) return;
  slots_charge_.Resize(slots_charge_.bytes() - BytesOf(it->second));
  told_of_slot_.erase(slot);
  told_of_name_.erase(Name(it->second.group(), it->second.name()));
  slot_of_.erase(Name(it->second.group(), it->second.name()));
  slots_by_group_.erase({it->second.group(), slot});
  slots_.erase(it);
}

void Negotiation::RemoveGroup(uint32_t group, Notices* notices) {
  std::vector<uint32_t> gone;
  for (auto slot = slots_by_group_.lower_bound({group, 0}); slot != slots_by_group_.end() && slot->first == group;
       ++slot) {
    gone.push_back(slot->second);
  }
  for (const uint32_t slot : gone) Free(slot);
  removed_groups_.push_back(group);
  Work(notices);
}

void Negotiation::ForgetOneOf(uint32_t removed_group, Notices* notices) {
  const auto it = pending_.lower_bound(Key(removed_group, "", 0, 0, 0));
  if (it == pending_.end() || std::get<0>(it->first) != removed_group) return removed_groups_.pop_front();
  const Key key = it->first;
  const std::string claim = absl::StrCat("group ", removed_group, " was removed");
  notices->push_back({it->second.ballot.spoken().Ranks(), MismatchFor(key, claim, true)});
  Forget(key);
}

absl::Status Negotiation::Adopt(const v1::SlotAssigned& slot) {
  if (slot.slot() == 0 || slot.slot() >= first_slot_) {
    return absl::InvalidArgumentError(absl::StrCat("hello names slot ", slot.slot(), " for ", Plain(slot.name()),
                                                   "; only slots from 1 to ", first_slot_ - 1, " may have been given"));
  }
  const auto known = slots_.find(slot.slot());
  if (known != slots_.end()) {
    if (known->second.name() == slot.name() && known->second.group() == slot.group()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("hello says that slot ", slot.slot(), " is ", Plain(slot.name()),
                                                   " of group ", slot.group(), ", and another rank said ",
                                                   Plain(known->second.name()), " of group ", known->second.group()));
  }
  if (groups_.Find(slot.group()) == nullptr) return absl::OkStatus();
  // Of two slots for one name the older was retired; not all ranks may know that yet.
  const auto [it, is_new] = slot_of_.try_emplace(Name(slot.group(), slot.name()), slot.slot());
  if (!is_new && it->second > slot.slot()) return absl::OkStatus();
  if (!is_new) {
    slots_charge_.Resize(slots_charge_.bytes() - BytesOf(slots_.at(it->second)));
    slots_by_group_.erase({slot.group(), it->second});
    slots_.erase(std::exchange(it->second, slot.slot()));
  }
  if (slots_.size() >= max_slots_) {
    slot_of_.erase(it);
    return absl::InvalidArgumentError(
        absl::StrCat("hello names slot ", slot.slot(), " beyond the limit of ", max_slots_, " slots"));
  }
  v1::SlotAssigned adopted = slot;
  adopted.set_epoch(epoch_);
  Keep(adopted);
  return absl::OkStatus();
}

void Negotiation::AdoptTold(const v1::Mismatch& told) {
  const bool is_dispute = told.disputed_slot() != 0;
  if ((is_dispute ? told_of_slot_.size() : told_of_name_.size()) >= max_slots_) return;
  // Without room the rank's repeated statement is decided anew.
  if (!told_charge_.Grow(static_cast<int64_t>(kStatementBytes + told.SpaceUsedLong()), ByteClass::kJob).ok()) return;
  v1::Mismatch& known =
      is_dispute ? told_of_slot_[told.disputed_slot()] : told_of_name_[Name(told.group(), told.name())];
  const bool is_newer = known.name().empty() || known.attempt() < told.attempt() || known.joins() < told.joins() ||
                        (known.joins() == told.joins() && known.next_ordinal() < told.next_ordinal());
  if (is_newer) known = told;
}

std::optional<v1::CoordinatorMessage> Negotiation::ToldBefore(const v1::Ready& ready) const {
  v1::CoordinatorMessage message;
  v1::Mismatch& mismatch = *message.mutable_mismatch();
  if (ready.disputed_slot() != 0) {
    const auto found = told_of_slot_.find(ready.disputed_slot());
    if (found == told_of_slot_.end() || found->second.attempt() < ready.attempt()) return std::nullopt;
    mismatch = found->second;
    mismatch.set_attempt(ready.attempt());
  } else {
    const auto found = told_of_name_.find(Name(ready.group(), ready.name()));
    if (found == told_of_name_.end() || found->second.joins() != ready.joins()) return std::nullopt;
    if (found->second.next_ordinal() <= ready.ordinal()) return std::nullopt;
    mismatch = found->second;
    mismatch.set_next_ordinal(ready.ordinal() + 1);
  }
  mismatch.set_epoch(epoch_);
  mismatch.set_name(ready.name());
  mismatch.set_group(ready.group());
  mismatch.set_sentence(Plain(mismatch.sentence(), kMostToldBytes));
  return message;
}

absl::Time Negotiation::OldestSince(absl::Time after) const {
  // absl::Time counts in quarters of a nanosecond.
  const auto it = oldest_first_.lower_bound({after + absl::Nanoseconds(0.25), Key()});
  return it == oldest_first_.end() ? absl::InfiniteFuture() : it->first;
}

std::vector<Negotiation::Gathering> Negotiation::Gatherings(absl::Time until, size_t most) const {
  std::vector<Gathering> gatherings;
  for (const auto& [since, key] : oldest_first_) {
    if (since > until || gatherings.size() == most) break;
    const Ballot<Statement>& ballot = pending_.at(key).ballot;
    gatherings.push_back({std::get<1>(key), std::get<0>(key), ballot.First().value.ready.op(), since, ballot.spoken(),
                          pending_.at(key).lacks_slot != 0});
  }
  return gatherings;
}

v1::CoordinatorMessage Negotiation::MismatchFor(const Key& key, const std::string& claim, bool is_decided) const {
  v1::CoordinatorMessage message;
  v1::Mismatch* mismatch = message.mutable_mismatch();
  mismatch->set_epoch(epoch_);
  mismatch->set_name(std::get<1>(key));
  mismatch->set_group(std::get<0>(key));
  mismatch->set_sentence(absl::StrCat(Plain(std::get<1>(key)), ": ", claim));
  mismatch->set_disputed_slot(std::get<2>(key));
  if (std::get<2>(key) != 0) {
    mismatch->set_attempt(std::get<3>(key));
  } else {
    mismatch->set_next_ordinal(std::get<3>(key) + (is_decided ? 1 : 0));
    mismatch->set_joins(std::get<4>(key));
  }
  return message;
}

}  // namespace farandole
