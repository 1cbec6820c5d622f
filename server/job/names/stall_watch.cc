#include "server/job/names/stall_watch.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/op_text.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// The oldest gatherings that one notice looks at.
constexpr size_t kMostGatherings = 256;
// Over the limit, and the rank to blame is not known yet.
constexpr absl::Duration kRetryTime = absl::Seconds(5);

// A worker may say any number; a year is as good as forever, and sums of times stay finite.
absl::Duration AgeOf(uint64_t age_ms) {
  constexpr uint64_t kYearMs = 366ull * 86'400'000;
  return absl::Milliseconds(std::min(age_ms, kYearMs));
}

absl::Duration OldestAge(const v1::StallReport& report) {
  uint64_t oldest = 0;
  for (const v1::PendingTensor& pending : report.pending()) oldest = std::max(oldest, pending.age_ms());
  return AgeOf(oldest);
}

// Leaves the longest waits, and that the rank has joined. False: all stay.
bool KeepOldest(int most, google::protobuf::RepeatedPtrField<v1::PendingTensor>* pending) {
  if (pending->size() <= most) return false;
  const auto weight = [](const v1::PendingTensor* one) {
    return std::make_pair(one->op() == v1::OP_TYPE_JOIN, one->age_ms());
  };
  std::stable_sort(pending->pointer_begin(), pending->pointer_end(),
                   [&weight](const auto* a, const auto* b) { return weight(a) > weight(b); });
  pending->DeleteSubrange(most, pending->size() - most);
  return true;
}

}  // namespace

StallWatch::StallWatch(uint64_t epoch, absl::Duration stall_warning, absl::Duration stall_limit,
                       const GroupTable& groups, const Negotiation& negotiation, const Roster& roster,
                       std::shared_ptr<ByteAccount> bytes)
    : epoch_(epoch),
      stall_warning_(stall_warning),
      stall_limit_(stall_limit),
      groups_(groups),
      negotiation_(negotiation),
      roster_(roster),
      bytes_(std::move(bytes)),
      noticed_charge_(bytes_, ByteKind::kReports) {}

int StallWatch::MostOfReport() const {
  return static_cast<int>(std::max<size_t>(1, kMostWaits / std::max<size_t>(1, roster_.size())));
}

void StallWatch::Report(uint32_t rank, const v1::StallReport& report, absl::Time now) {
  const bool is_answer = report.inquiry() != 0;
  if (is_answer && (!IsAsking() || report.inquiry() != inquiry_)) return;
  Account account{report, now, is_answer, false, ByteCharge(bytes_, ByteKind::kReports)};
  v1::StallReport& kept = account.report;
  account.is_cut = KeepOldest(MostOfReport(), kept.mutable_pending());
  const bool is_noticed = IsNoticed(kept);
  const auto known = accounts_.find(rank);
  if (known == accounts_.end() || is_answer || !known->second.is_answer) {
    const auto size = static_cast<int64_t>(sizeof(Account) + kept.SpaceUsedLong());
    if (!account.charge.Grow(size, ByteClass::kObserver).ok()) {
      account.is_cut = account.is_cut || !kept.pending().empty();
      kept.clear_pending();
    }
    accounts_[rank] = std::move(account);
  }
  if (is_answer) {
    unanswered_.erase(rank);
    return;
  }
  if (!is_noticed) recheck_at_ = std::min(recheck_at_, std::max(now, now + stall_warning_ - OldestAge(report)));
}

bool StallWatch::IsNoticed(const v1::StallReport& report) const {
  // So many tensors are looked at again soon, whatever others there are.
  if (noticed_.size() >= kMostTensors) return true;
  return absl::c_all_of(report.pending(), [this](const v1::PendingTensor& pending) {
    return noticed_.contains(Tensor(pending.group(), pending.name()));
  });
}

std::string StallWatch::Advance(absl::Time now, Notices* notices) {
  if (!IsAsking() && NextInquiry() <= now) Ask(now, notices);
  if (IsAsking() && (unanswered_.empty() || inquiry_opened_ + kAnswerTime <= now)) return Conclude(now, notices);
  return "";
}

absl::Time StallWatch::Deadline() const { return IsAsking() ? inquiry_opened_ + kAnswerTime : NextInquiry(); }

RankSet StallWatch::Missing() const {
  RankSet ranks;
  for (const auto& [tensor, missing] : noticed_) ranks.Add(missing);
  return ranks;
}

absl::Time StallWatch::NextInquiry() const {
  const absl::Time due = std::min(recheck_at_, negotiation_.OldestSince(covered_until_) + stall_warning_);
  return std::max(due, not_before_);
}

void StallWatch::Ask(absl::Time now, Notices* notices) {
  inquiry_opened_ = now;
  ++inquiry_;
  v1::CoordinatorMessage message;
  message.mutable_stall_inquiry()->set_epoch(epoch_);
  message.mutable_stall_inquiry()->set_inquiry(inquiry_);
  std::vector<uint32_t> asked;
  for (const uint32_t rank : roster_.Staying()) {
    if (roster_.seat(rank).stream != 0) asked.push_back(rank);
  }
  unanswered_ = {asked.begin(), asked.end()};
  notices->push_back({std::move(asked), std::move(message)});
}

std::string StallWatch::Conclude(absl::Time now, Notices* notices) {
  inquiry_opened_ = absl::InfinitePast();
  covered_until_ = now - stall_warning_;
  recheck_at_ = absl::InfiniteFuture();
  not_before_ = now + std::min(stall_warning_, kAnswerTime);
  const Stalls waits = Gather(now);
  Stalls stalls = waits;
  KeepStalled(now, &stalls);
  std::string sentence;
  const bool has_news = HasNews(stalls);
  noticed_.clear();
  int64_t noticed_bytes = 0;
  for (const auto& [tensor, stall] : stalls) {
    noticed_[tensor] = stall.missing;
    noticed_bytes += static_cast<int64_t>(sizeof(tensor) + tensor.second.size() + sizeof(RankSet)) +
                     RankSet::BytesFor(roster_.size());
  }
  noticed_charge_.Resize(noticed_bytes);
  if (!stalls.empty()) {
    if (has_news || noticed_at_ + distance_ <= now) {
      distance_ = has_news ? stall_warning_ : 2 * distance_;
      noticed_at_ = now;
      sentence = Compose(stalls, now);
    }
    recheck_at_ = std::min(noticed_at_ + distance_, now + stall_warning_);
    FindOverdue(stalls, waits, now);
  }
  accounts_.clear();
  if (sentence.empty()) return sentence;
  v1::CoordinatorMessage message;
  message.mutable_stall_notice()->set_epoch(epoch_);
  message.mutable_stall_notice()->set_sentence(sentence);
  notices->push_back({roster_.Staying(), std::move(message)});
  return sentence;
}

bool StallWatch::HasNews(const Stalls& stalls) const {
  return absl::c_any_of(stalls, [this](const Stalls::value_type& entry) {
    const auto known = noticed_.find(entry.first);
    return known == noticed_.end() || known->second != entry.second.missing;
  });
}

StallWatch::Stall* StallWatch::Found::Of(uint32_t group, const std::string& name) {
  if (const auto place = places.find({group, name}); place != places.end()) return place->second;
  if (tensors.size() == kMostTensors) return nullptr;
  auto& [tensor, stall] = tensors.emplace_back(Tensor(group, name), Stall());
  places.emplace(std::make_pair(group, absl::string_view(tensor.second)), &stall);
  return &stall;
}

StallWatch::Stalls StallWatch::Gather(absl::Time now) const {
  Found found;
  for (const Negotiation::Gathering& gathering : negotiation_.Gatherings(now - stall_warning_, kMostGatherings)) {
    Stall& stall = *found.Of(gathering.group, gathering.name);
    stall.op = gathering.op;
    stall.oldest = std::min(stall.oldest, gathering.since);
    stall.youngest = std::max(stall.youngest, gathering.since);
    stall.waiting.Add(gathering.present);
    stall.lacks_slot = gathering.lacks_slot;
  }
  AddReported(&found);
  const RankSet joined = Joined();
  absl::flat_hash_map<uint32_t, RankSet> ranks_of;
  Stalls stalls;
  for (auto& [tensor, stall] : found.tensors) {
    const std::vector<uint32_t>* ranks = groups_.Find(tensor.first);
    if (ranks != nullptr && stall.op != v1::OP_TYPE_JOIN) {
      RankSet& group = ranks_of[tensor.first];
      if (group.IsEmpty()) group = RankSet(*ranks);
      stall.missing = group;
      stall.missing.Remove(stall.waiting);
      stall.missing.Remove(joined);
    }
    stalls.emplace(std::move(tensor), std::move(stall));
  }
  return stalls;
}

void StallWatch::AddReported(Found* found) const {
  struct Wait {
    absl::Time since;
    uint32_t rank;
    const v1::PendingTensor* pending;
  };
  std::vector<Wait> waits;
  for (const auto& [rank, account] : accounts_) {
    for (const v1::PendingTensor& pending : account.report.pending())
      waits.push_back({account.at - AgeOf(pending.age_ms()), rank, &pending});
  }
  absl::c_stable_sort(waits, [](const Wait& a, const Wait& b) { return a.since < b.since; });
  for (const auto& [since, rank, pending] : waits) {
    Stall* const stall = found->Of(pending->group(), pending->name());
    if (stall == nullptr) continue;
    stall->op = pending->op();
    stall->oldest = std::min(stall->oldest, since);
    stall->youngest = std::max(stall->youngest, since);
    stall->waiting.Insert(rank);
  }
}

RankSet StallWatch::Joined() const {
  const auto is_join = [](const v1::PendingTensor& pending) { return pending.op() == v1::OP_TYPE_JOIN; };
  RankSet joined;
  for (const auto& [rank, account] : accounts_) {
    if (absl::c_any_of(account.report.pending(), is_join)) joined.Insert(rank);
  }
  return joined;
}

void StallWatch::KeepStalled(absl::Time now, Stalls* stalls) const {
  for (auto it = stalls->begin(); it != stalls->end();) {
    const Stall& stall = it->second;
    bool is_stalled = groups_.Find(it->first.first) != nullptr && stall.op != v1::OP_TYPE_JOIN &&
                      stall.oldest + stall_warning_ <= now;
    // If the last rank has come just now, the tensor is on its way.
    is_stalled = is_stalled && (!stall.missing.IsEmpty() || stall.youngest + stall_warning_ <= now);
    it = is_stalled ? std::next(it) : stalls->erase(it);
  }
}

void StallWatch::FindOverdue(const Stalls& stalls, const Stalls& waits, absl::Time now) {
  const Stalls::value_type* oldest = nullptr;
  for (const Stalls::value_type& entry : stalls) {
    // If no rank is missing, the tensor is under way.
    if (entry.second.missing.IsEmpty()) continue;
    if (oldest == nullptr || entry.second.oldest < oldest->second.oldest) oldest = &entry;
  }
  if (oldest == nullptr || stall_limit_ == absl::InfiniteDuration()) return;
  const absl::Time due = std::max(oldest->second.oldest, judged_from_) + stall_limit_;
  if (due > now) {
    recheck_at_ = std::min(recheck_at_, due);
    return;
  }
  const RankSet to_blame = ToBlame(waits, oldest->second);
  if (to_blame.IsEmpty()) recheck_at_ = std::min(recheck_at_, now + std::min(stall_warning_, kRetryTime));
  const std::vector<uint32_t> waiting = oldest->second.waiting.Ranks();
  const std::string what =
      absl::StrCat(Plain(oldest->first.second), ", for which ", ShowRanks(waiting),
                   waiting.size() == 1 ? " has" : " have", " waited ", ShowDuration(now - oldest->second.oldest), "; ",
                   ShowDuration(stall_limit_), " is the most (its stall limit)");
  for (const uint32_t rank : to_blame.Ranks()) {
    const bool is_direct = oldest->second.missing.Contains(rank);
    overdue_.push_back(
        {rank, absl::StrCat(is_direct ? "it has not submitted " : "it keeps others from submitting ", what)});
  }
}

RankSet StallWatch::ToBlame(const Stalls& waits, const Stall& stall) const {
  RankSet idle, seen;
  RankSet open = stall.missing;
  bool is_all_known = true;
  bool awaits_all = false;
  absl::flat_hash_set<const Stall*> followed;
  while (!open.IsEmpty()) {
    const uint32_t rank = open.First();
    open.Erase(rank);
    if (!seen.Insert(rank) || roster_.seat(rank).left) continue;
    const auto account = accounts_.find(rank);
    bool is_known = true;
    if (account == accounts_.end() || !account->second.is_answer || account->second.report.running() > 0) {
      is_known = false;
    } else if (account->second.report.group_requests() > 0) {
      if (!std::exchange(awaits_all, true)) open.Add(RankSet(roster_.Staying()));
    } else if (account->second.report.pending().empty() && !account->second.is_cut) {
      idle.Insert(rank);
    } else {
      is_known = absl::c_any_of(waits, [rank](const auto& entry) { return entry.second.waiting.Contains(rank); });
    }
    is_all_known = is_all_known && is_known;
    for (const auto& [tensor, other] : waits) {
      if (!other.waiting.Contains(rank) || !followed.insert(&other).second) continue;
      open.Add(other.missing);
      // On its way, while others act.
      if (other.missing.IsEmpty() && other.op != v1::OP_TYPE_JOIN) is_all_known = false;
    }
    open.Remove(seen);
  }
  if (!idle.IsEmpty() || !is_all_known) return idle;
  for (const uint32_t rank : stall.missing.Ranks()) {
    if (!roster_.seat(rank).left) idle.Insert(rank);
  }
  return idle;
}

std::string StallWatch::Compose(const Stalls& stalls, absl::Time now) const {
  const std::vector<const Stalls::value_type*> oldest_first = OldestFirst(stalls);
  std::vector<std::string> sentences;
  for (const Stalls::value_type* one : oldest_first) {
    if (sentences.size() == kMostTensorsNamed) break;
    sentences.push_back(Describe(one->first, one->second, now));
  }
  const size_t more = oldest_first.size() - sentences.size();
  if (std::string cycle = DescribeCycle(stalls); !cycle.empty()) sentences.insert(sentences.begin(), std::move(cycle));
  return absl::StrCat(absl::StrJoin(sentences, "; "),
                      more == 0 ? "" : absl::StrCat("; and ", Count(more, "more tensor")));
}

std::vector<const StallWatch::Stalls::value_type*> StallWatch::OldestFirst(const Stalls& stalls) {
  std::vector<const Stalls::value_type*> oldest_first;
  for (const Stalls::value_type& entry : stalls) oldest_first.push_back(&entry);
  absl::c_stable_sort(oldest_first, [](const auto* a, const auto* b) { return a->second.oldest < b->second.oldest; });
  return oldest_first;
}

std::string StallWatch::ShowCycle(const std::vector<uint32_t>& cycle,
                                  const std::vector<const Stalls::value_type*>& wait_of) {
  std::vector<std::string> waits;
  for (size_t i = 0; i < cycle.size() && i < kMostRanksNamed; ++i) {
    waits.push_back(absl::StrCat("rank ", cycle[i], " in ", Plain(wait_of[cycle[i]]->first.second), " for rank ",
                                 cycle[(i + 1) % cycle.size()]));
  }
  const size_t more = cycle.size() - waits.size();
  return absl::StrCat("ranks wait for each other: ", absl::StrJoin(waits, ", "),
                      more == 0 ? "" : absl::StrCat(" and so on, ", Count(cycle.size(), "rank"), " in all"));
}

std::string StallWatch::DescribeCycle(const Stalls& stalls) const {
  // The longest wait of each rank. A missing rank that waits for no other keeps the others waiting.
  std::vector<const Stalls::value_type*> wait_of(roster_.size());
  RankSet waiting;
  for (const Stalls::value_type* one : OldestFirst(stalls)) {
    RankSet further = one->second.waiting;
    further.Remove(waiting);
    for (const uint32_t rank : further.Ranks()) wait_of[rank] = one;
    waiting.Add(further);
  }
  const auto next_of = [&](uint32_t rank) {
    const RankSet& missing = wait_of[rank]->second.missing;
    const bool is_free = missing.IsEmpty() || !missing.IsWithin(waiting);
    return is_free ? std::nullopt : std::optional<uint32_t>(missing.First());
  };
  RankSet seen;
  for (const uint32_t first : waiting.Ranks()) {
    std::vector<uint32_t> path;
    for (std::optional<uint32_t> rank = first; rank.has_value(); rank = next_of(*rank)) {
      const auto again = absl::c_find(path, *rank);
      if (again != path.end()) {
        path.erase(path.begin(), again);
        return ShowCycle(path, wait_of);
      }
      if (!seen.Insert(*rank)) break;
      path.push_back(*rank);
    }
  }
  return "";
}

std::string StallWatch::Describe(const Tensor& tensor, const Stall& stall, absl::Time now) const {
  const std::string subject =
      absl::StrCat("tensor ", Plain(tensor.second), " (", ShowOp(stall.op), ", group ", tensor.first, "): ");
  const std::vector<uint32_t> waiting = stall.waiting.Ranks();
  if (stall.lacks_slot) {
    return absl::StrCat(subject, ShowRanks(waiting), waiting.size() == 1 ? " has" : " have",
                        " submitted it, and it has waited ", ShowDuration(now - stall.youngest), " for one of the ",
                        negotiation_.max_slots(), " slots, which are all in use (--max-slots, FARANDOLE_MAX_SLOTS)");
  }
  if (stall.missing.IsEmpty()) {
    return absl::StrCat(subject, ShowRanks(waiting), waiting.size() == 1 ? " has" : " have",
                        " submitted it, nobody is missing, and it has not completed for ",
                        ShowDuration(now - stall.youngest));
  }
  std::vector<std::string> missing;
  for (const uint32_t rank : stall.missing.Ranks(kMostRanksNamed)) missing.push_back(DescribeMissing(rank, now));
  const size_t more = stall.missing.count() - missing.size();
  return absl::StrCat(subject, ShowRanks(waiting), waiting.size() == 1 ? " has" : " have", " waited ",
                      ShowDuration(now - stall.oldest), "; missing ", stall.missing.count() == 1 ? "is " : "are ",
                      absl::StrJoin(missing, ", "), more == 0 ? "" : absl::StrCat(" and ", Count(more, "more rank")));
}

std::string StallWatch::DescribeMissing(uint32_t rank, absl::Time now) const {
  const std::string who = absl::StrCat("rank ", rank, " (");
  if (roster_.seat(rank).left) return absl::StrCat(who, "has left)");
  const auto it = accounts_.find(rank);
  if (it == accounts_.end()) return absl::StrCat(who, "did not answer)");
  const v1::StallReport& report = it->second.report;
  const auto oldest = absl::c_max_element(
      report.pending(), [](const v1::PendingTensor& a, const v1::PendingTensor& b) { return a.age_ms() < b.age_ms(); });
  if (oldest != report.pending().end()) {
    const std::string unasked = report.unasked() == 0
                                    ? ""
                                    : absl::StrCat(", and has ", Count(report.unasked(), "more new name"),
                                                   " than are negotiated at a time (--max-slots, FARANDOLE_MAX_SLOTS)");
    return absl::StrCat(who, "waits for tensor ", Plain(oldest->name()), " itself", unasked, ")");
  }
  if (report.last_submitted().empty()) return absl::StrCat(who, "has submitted nothing yet)");
  const absl::Duration age = now - it->second.at + AgeOf(report.last_submitted_age_ms());
  return absl::StrCat(who, "last submitted ", Plain(report.last_submitted()), " ", ShowDuration(age), " ago)");
}

}  // namespace farandole
