#include "server/job/names/group_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

std::string ShowRequest(const v1::GroupRequest& request) {
  if (request.remove_group() != 0) return absl::StrCat("asks to remove group ", request.remove_group());
  return absl::StrCat("asks for group ", ShowList(request.ranks()));
}

// A rank has no more unanswered requests than threads that make groups.
constexpr size_t kMostRefusals = 256;
// Of a request, of a group and of a refusal, beside what has no fixed size.
constexpr size_t kRequestBytes = 256;
constexpr size_t kGroupBytes = 512;
constexpr size_t kRefusalBytes = 128;

}  // namespace

GroupTable::GroupTable(uint64_t epoch, uint32_t size, uint32_t max_groups, uint32_t first_number,
                       std::shared_ptr<ByteAccount> bytes)
    : epoch_(epoch),
      max_groups_(max_groups),
      all_(size),
      bytes_(std::move(bytes)),
      groups_charge_(bytes_, ByteKind::kNames),
      first_number_(first_number),
      next_number_(first_number),
      refusals_charge_(bytes_, ByteKind::kNames),
      next_(size, 0) {
  std::iota(all_.begin(), all_.end(), 0);
}

bool GroupTable::SameRequest(const Asked& a, const Asked& b) {
  return a.request.remove_group() == b.request.remove_group() && absl::c_equal(a.request.ranks(), b.request.ranks());
}

int64_t GroupTable::BytesOf(const std::vector<uint32_t>& ranks) {
  return static_cast<int64_t>(kGroupBytes + 2 * sizeof(uint32_t) * ranks.size());
}

const std::vector<uint32_t>* GroupTable::Find(uint32_t number) const {
  if (number == 0) return &all_;
  const auto it = groups_.find(number);
  return it == groups_.end() ? nullptr : &it->second;
}

bool GroupTable::Contains(uint32_t number, uint32_t rank) const {
  const std::vector<uint32_t>* ranks = Find(number);
  return ranks != nullptr && absl::c_binary_search(*ranks, rank);
}

absl::Status GroupTable::Request(uint32_t rank, const v1::GroupRequest& request, Notices* notices,
                                 std::vector<uint32_t>* removed) {
  if (const auto refused = refusals_.find(request.ordinal()); refused != refusals_.end()) {
    notices->push_back({{rank}, Refusal(request, refused->second)});
    return absl::OkStatus();
  }
  const uint64_t place = next_[rank] - answered_;
  if (const uint32_t most = std::min(max_groups_, kMostWaiting); place >= most) {
    return absl::ResourceExhaustedError(absl::StrCat("rank ", rank, " waits for other ranks with ",
                                                     Count(place, "group request"), "; ", most, " is the most"));
  }
  Asked asked{request};
  if (absl::Status room = ChargeFor(place, &asked); !room.ok()) return room;
  ++next_[rank];
  if (place == rounds_.size()) rounds_.emplace_back();
  rounds_[place].Cast(rank, std::move(asked), SameRequest);
  while (!rounds_.empty() && rounds_.front().count() == all_.size()) {
    Decide(rounds_.front(), notices, removed);
    rounds_.pop_front();
    ++answered_;
  }
  if (!leaver_.empty() && !rounds_.empty()) {
    // No round can be complete any more: each request is answered as it comes, by itself.
    notices->push_back(
        {{rank}, Refusal(request, absl::StrCat(leaver_, " has left the epoch, so no group can be made or removed"))});
    rounds_[place].Withdraw(rank);
    --next_[rank];
  }
  return absl::OkStatus();
}

absl::Status GroupTable::ChargeFor(size_t place, Asked* asked) const {
  // The ranks that ask for the same are kept twice: by the request, and by its round.
  const auto bytes =
      static_cast<int64_t>(kRequestBytes + asked->request.SpaceUsedLong()) + 2 * RankSet::BytesFor(all_.size());
  asked->charge = ByteCharge(bytes_, ByteKind::kNames);
  const absl::Status status = asked->charge.Grow(bytes, ByteClass::kJob);
  if (status.ok() || place >= rounds_.size()) return status;
  // Equal requests are kept once.
  const auto is_same = [asked](const Round::Choice& choice) { return SameRequest(choice.value, *asked); };
  return absl::c_any_of(rounds_[place].choices(), is_same) ? absl::OkStatus() : status;
}

void GroupTable::Decide(const Round& round, Notices* notices, std::vector<uint32_t>* removed) {
  const Round::Choice& first = round.First();
  std::string error;
  if (const Round::Choice* second = round.Second(); second != nullptr) {
    error = absl::StrCat("ranks ask for different groups: rank ", first.lowest(), " ", ShowRequest(first.value.request),
                         ", rank ", second->lowest(), " ", ShowRequest(second->value.request));
  } else {
    error = FaultOfRequest(first.value.request);
  }
  if (error.empty()) error = FaultOfRoom(first.value.request);
  if (!error.empty()) {
    KeepRefusal(first.value.request.ordinal(), error);
    for (const Round::Choice& choice : round.choices())
      notices->push_back({choice.ranks.Ranks(), Refusal(choice.value.request, error)});
    return;
  }
  if (const uint32_t number = first.value.request.remove_group(); number != 0) {
    Drop(number);
    removed->push_back(number);
    notices->push_back({all_, Assigned(number, {})});
    return;
  }
  std::vector<uint32_t> ranks(first.value.request.ranks().begin(), first.value.request.ranks().end());
  notices->push_back({all_, Assigned(next_number_, ranks)});
  Keep(next_number_++, std::move(ranks));
}

void GroupTable::Keep(uint32_t number, std::vector<uint32_t> ranks) {
  groups_charge_.Resize(groups_charge_.bytes() + BytesOf(ranks));
  groups_[number] = std::move(ranks);
}

void GroupTable::Drop(uint32_t number) {
  const auto group = groups_.find(number);
  if (group == groups_.end()) return;
  groups_charge_.Resize(groups_charge_.bytes() - BytesOf(group->second));
  groups_.erase(group);
  told_.erase(number);
}

void GroupTable::Leave(const std::string& who, Notices* notices) {
  if (leaver_.empty()) leaver_ = who;
  const std::string error = absl::StrCat(leaver_, " has left the epoch, so no group can be made or removed");
  for (const Round& round : rounds_) {
    for (const Round::Choice& choice : round.choices())
      notices->push_back({choice.ranks.Ranks(), Refusal(choice.value.request, error)});
  }
  rounds_.clear();
  next_.assign(next_.size(), answered_);
}

void GroupTable::Forget(uint32_t rank) {
  for (Round& round : rounds_) round.Withdraw(rank);
  while (!rounds_.empty() && rounds_.back().count() == 0) rounds_.pop_back();
  next_[rank] = answered_;
}

absl::Status GroupTable::Adopt(const v1::Group& group) {
  if (group.number() == 0) return absl::OkStatus();
  if (group.number() >= first_number_) {
    return absl::InvalidArgumentError(absl::StrCat("hello names group ", group.number(), "; only groups up to ",
                                                   first_number_ - 1, " may have been given"));
  }
  if (std::string fault = FaultOfRanks(group.ranks()); !fault.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("hello names group ", group.number(), ": ", fault));
  }
  std::vector<uint32_t> ranks(group.ranks().begin(), group.ranks().end());
  if (groups_.size() >= max_groups_ && !groups_.contains(group.number())) {
    return absl::InvalidArgumentError(
        absl::StrCat("hello names group ", group.number(), " beyond the limit of ", max_groups_, " groups"));
  }
  const auto known = groups_.find(group.number());
  if (known == groups_.end()) return Keep(group.number(), std::move(ranks)), absl::OkStatus();
  if (known->second == ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("hello says that group ", group.number(), " is ", ShowList(ranks),
                                                 ", and another rank said ", ShowList(known->second)));
}

void GroupTable::AdoptRefusal(const v1::GroupAssigned& refused) { KeepRefusal(refused.ordinal(), refused.error()); }

void GroupTable::KeepRefusal(uint64_t ordinal, const std::string& error) {
  if (ordinal == 0) return;
  refusals_[ordinal] = error;
  if (refusals_.size() > kMostRefusals) refusals_.erase(refusals_.begin());
  size_t bytes = 0;
  for (const auto& [place, sentence] : refusals_) bytes += kRefusalBytes + sentence.size();
  refusals_charge_.Resize(static_cast<int64_t>(bytes));
}

SharedMessage GroupTable::Tell(uint32_t number) {
  const auto group = groups_.find(number);
  if (group == groups_.end()) return Share(Assigned(number, {}));
  std::weak_ptr<const v1::CoordinatorMessage>& told = told_[number];
  SharedMessage message = told.lock();
  if (message == nullptr) told = message = Share(Assigned(number, group->second));
  return message;
}

v1::CoordinatorMessage GroupTable::Assigned(uint32_t number, const std::vector<uint32_t>& ranks) const {
  v1::CoordinatorMessage message;
  v1::GroupAssigned* assigned = message.mutable_group_assigned();
  assigned->set_epoch(epoch_);
  assigned->mutable_group()->set_number(number);
  assigned->mutable_group()->mutable_ranks()->Assign(ranks.begin(), ranks.end());
  return message;
}

std::string GroupTable::FaultOfRequest(const v1::GroupRequest& request) const {
  if (request.remove_group() != 0) {
    if (!request.ranks().empty()) {
      return absl::StrCat("a group request names both ranks ", ShowList(request.ranks()), " and group ",
                          request.remove_group(), " to remove");
    }
    if (!groups_.contains(request.remove_group()))
      return absl::StrCat("there is no group ", request.remove_group(), " to remove");
    return "";
  }
  if (groups_.size() >= max_groups_) {
    return absl::StrCat("no group ", ShowList(request.ranks()), " can be made: the epoch has ",
                        Count(groups_.size(), "group"), " already, and ", max_groups_, " is the most");
  }
  return FaultOfRanks(request.ranks());
}

std::string GroupTable::FaultOfRoom(const v1::GroupRequest& request) const {
  if (request.remove_group() != 0) return "";
  ByteCharge charge(bytes_, ByteKind::kNames);
  const std::vector<uint32_t> ranks(request.ranks().begin(), request.ranks().end());
  const absl::Status room = charge.Grow(BytesOf(ranks), ByteClass::kJob);
  return room.ok() ? "" : absl::StrCat("no group ", ShowList(ranks), " can be made: ", room.message());
}

std::string GroupTable::FaultOfRanks(const google::protobuf::RepeatedField<uint32_t>& ranks) const {
  if (ranks.empty()) return "a group needs at least one rank";
  for (int i = 0; i < ranks.size(); ++i) {
    if (ranks[i] >= all_.size()) {
      return absl::StrCat("group ", ShowList(ranks), " names rank ", ranks[i], ", and the epoch has ",
                          Count(all_.size(), "rank"));
    }
    if (i > 0 && ranks[i] <= ranks[i - 1]) {
      return absl::StrCat("group ", ShowList(ranks), " is not ascending: ", ranks[i], " follows ", ranks[i - 1]);
    }
  }
  return "";
}

v1::CoordinatorMessage GroupTable::Refusal(const v1::GroupRequest& request, const std::string& error) const {
  v1::CoordinatorMessage message;
  v1::GroupAssigned* assigned = message.mutable_group_assigned();
  assigned->set_epoch(epoch_);
  assigned->mutable_group()->set_number(request.remove_group());
  *assigned->mutable_group()->mutable_ranks() = request.ranks();
  assigned->set_error(error);
  assigned->set_ordinal(request.ordinal());
  return message;
}

}  // namespace farandole
