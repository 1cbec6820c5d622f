#include "server/job/names/stall_watch.h"

#include <algorithm>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/op_text.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// The oldest gatherings that one notice looks at; many more than it names.
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
      bytes_(std::move(bytes)) {}

void StallWatch::Report(uint32_t rank, const v1::StallReport& report, absl::Time now) {
  const bool is_answer = report.inquiry() != 0;
  if (is_answer && (!IsAsking() || report.inquiry() != inquiry_)) return;
  const auto known = accounts_.find(rank);
  if (known == accounts_.end() || is_answer || !known->second.is_answer) {
    Account account{report, now, is_answer, ByteCharge(bytes_, ByteKind::kReports)};
    const auto size = static_cast<int64_t>(sizeof(Account) + report.SpaceUsedLong());
    if (!account.charge.Grow(size, ByteClass::kObserver).ok()) account.report.clear_pending();
    accounts_[rank] = std::move(account);
  }
  if (is_answer) {
    unanswered_.erase(rank);
    return;
  }
  const auto is_noticed = [this](const v1::PendingTensor& pending) {
    return noticed_.contains(Tensor(pending.group(), pending.name()));
  };
  if (report.pending().empty() || absl::c_all_of(report.pending(), is_noticed)) return;
  recheck_at_ = std::min(recheck_at_, std::max(now, now + stall_warning_ - OldestAge(report)));
}

std::string StallWatch::Advance(absl::Time now, Notices* notices) {
  if (!IsAsking() && NextInquiry() <= now) Ask(now, notices);
  if (IsAsking() && (unanswered_.empty() || inquiry_opened_ + kAnswerTime <= now)) return Conclude(now, notices);
  return "";
}

absl::Time StallWatch::Deadline() const { return IsAsking() ? inquiry_opened_ + kAnswerTime : NextInquiry(); }

absl::btree_set<uint32_t> StallWatch::Missing() const {
  absl::btree_set<uint32_t> ranks;
  for (const auto& [tensor, missing] : noticed_) ranks.insert(missing.begin(), missing.end());
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
  for (const auto& [tensor, stall] : stalls) noticed_[tensor] = stall.missing;
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

StallWatch::Stalls StallWatch::Gather(absl::Time now) const {
  Stalls stalls;
  for (const Negotiation::Gathering& gathering : negotiation_.Gatherings(now - stall_warning_, kMostGatherings)) {
    Stall& stall = stalls[Tensor(gathering.group, gathering.name)];
    stall.op = gathering.op;
    stall.oldest = std::min(stall.oldest, gathering.since);
    stall.youngest = std::max(stall.youngest, gathering.since);
    stall.waiting.insert(gathering.present.begin(), gathering.present.end());
    stall.lacks_slot = gathering.lacks_slot;
  }
  for (const auto& [rank, account] : accounts_) {
    for (const v1::PendingTensor& pending : account.report.pending()) {
      Stall& stall = stalls[Tensor(pending.group(), pending.name())];
      const absl::Time since = account.at - AgeOf(pending.age_ms());
      stall.op = pending.op();
      stall.oldest = std::min(stall.oldest, since);
      stall.youngest = std::max(stall.youngest, since);
      stall.waiting.insert(rank);
    }
  }
  for (auto& [tensor, stall] : stalls) {
    const std::vector<uint32_t>* ranks = groups_.Find(tensor.first);
    if (ranks == nullptr || stall.op == v1::OP_TYPE_JOIN) continue;
    for (const uint32_t rank : *ranks) {
      if (!stall.waiting.contains(rank) && !HasJoined(rank)) stall.missing.push_back(rank);
    }
  }
  return stalls;
}

void StallWatch::KeepStalled(absl::Time now, Stalls* stalls) const {
  for (auto it = stalls->begin(); it != stalls->end();) {
    const Stall& stall = it->second;
    bool is_stalled = groups_.Find(it->first.first) != nullptr && stall.op != v1::OP_TYPE_JOIN &&
                      stall.oldest + stall_warning_ <= now;
    // If the last rank has come just now, the tensor is on its way.
    is_stalled = is_stalled && (!stall.missing.empty() || stall.youngest + stall_warning_ <= now);
    it = is_stalled ? std::next(it) : stalls->erase(it);
  }
}

void StallWatch::FindOverdue(const Stalls& stalls, const Stalls& waits, absl::Time now) {
  const Stalls::value_type* oldest = nullptr;
  for (const Stalls::value_type& entry : stalls) {
    // If no rank is missing, the tensor is under way.
    if (entry.second.missing.empty()) continue;
    if (oldest == nullptr || entry.second.oldest < oldest->second.oldest) oldest = &entry;
  }
  if (oldest == nullptr || stall_limit_ == absl::InfiniteDuration()) return;
  const absl::Time due = std::max(oldest->second.oldest, judged_from_) + stall_limit_;
  if (due > now) {
    recheck_at_ = std::min(recheck_at_, due);
    return;
  }
  const absl::btree_set<uint32_t> to_blame = ToBlame(waits, oldest->second);
  if (to_blame.empty()) recheck_at_ = std::min(recheck_at_, now + std::min(stall_warning_, kRetryTime));
  const std::vector<uint32_t> waiting(oldest->second.waiting.begin(), oldest->second.waiting.end());
  for (const uint32_t rank : to_blame) {
    const bool is_direct = absl::c_linear_search(oldest->second.missing, rank);
    overdue_.push_back({rank, absl::StrCat(is_direct ? "it has not submitted " : "it keeps others from submitting ",
                                           Plain(oldest->first.second), ", for which ", ShowRanks(waiting),
                                           waiting.size() == 1 ? " has" : " have", " waited ",
                                           ShowDuration(now - oldest->second.oldest), "; ", ShowDuration(stall_limit_),
                                           " is the most (its stall limit)")});
  }
}

absl::btree_set<uint32_t> StallWatch::ToBlame(const Stalls& waits, const Stall& stall) const {
  absl::btree_set<uint32_t> idle;
  absl::btree_set<uint32_t> seen;
  std::vector<uint32_t> open(stall.missing.begin(), stall.missing.end());
  bool is_all_known = true;
  while (!open.empty()) {
    const uint32_t rank = open.back();
    open.pop_back();
    if (!seen.insert(rank).second || roster_.seat(rank).left) continue;
    const auto account = accounts_.find(rank);
    if (account == accounts_.end() || !account->second.is_answer || account->second.report.running() > 0) {
      is_all_known = false;
    } else if (account->second.report.group_requests() > 0) {
      for (const uint32_t other : roster_.Staying()) open.push_back(other);
    } else if (account->second.report.pending().empty()) {
      idle.insert(rank);
    }
    for (const auto& [tensor, other] : waits) {
      if (!other.waiting.contains(rank)) continue;
      open.insert(open.end(), other.missing.begin(), other.missing.end());
      // On its way, while others act.
      if (other.missing.empty() && other.op != v1::OP_TYPE_JOIN) is_all_known = false;
    }
  }
  if (!idle.empty() || !is_all_known) return idle;
  for (const uint32_t rank : stall.missing) {
    if (!roster_.seat(rank).left) idle.insert(rank);
  }
  return idle;
}

bool StallWatch::HasJoined(uint32_t rank) const {
  const auto it = accounts_.find(rank);
  return it != accounts_.end() && absl::c_any_of(it->second.report.pending(), [](const v1::PendingTensor& pending) {
           return pending.op() == v1::OP_TYPE_JOIN;
         });
}

std::string StallWatch::Compose(const Stalls& stalls, absl::Time now) const {
  std::vector<Stalls::const_iterator> oldest_first;
  for (auto it = stalls.begin(); it != stalls.end(); ++it) oldest_first.push_back(it);
  absl::c_stable_sort(oldest_first, [](const auto& a, const auto& b) { return a->second.oldest < b->second.oldest; });
  std::vector<std::string> sentences;
  for (const auto& it : oldest_first) {
    if (sentences.size() == kMostTensorsNamed) break;
    sentences.push_back(Describe(it->first, it->second, now));
  }
  const size_t more = oldest_first.size() - sentences.size();
  if (std::string cycle = DescribeCycle(stalls); !cycle.empty()) sentences.insert(sentences.begin(), std::move(cycle));
  return absl::StrCat(absl::StrJoin(sentences, "; "),
                      more == 0 ? "" : absl::StrCat("; and ", Count(more, "more tensor")));
}

std::string StallWatch::ShowCycle(const std::vector<uint32_t>& cycle,
                                  const absl::btree_map<uint32_t, Stalls::const_iterator>& wait_of) {
  std::vector<std::string> waits;
  for (size_t i = 0; i < cycle.size() && i < kMostRanksNamed; ++i) {
    waits.push_back(absl::StrCat("rank ", cycle[i], " in ", Plain(wait_of.at(cycle[i])->first.second), " for rank ",
                                 cycle[(i + 1) % cycle.size()]));
  }
  const size_t more = cycle.size() - waits.size();
  return absl::StrCat("ranks wait for each other: ", absl::StrJoin(waits, ", "),
                      more == 0 ? "" : absl::StrCat(" and so on, ", Count(cycle.size(), "rank"), " in all"));
}

std::string StallWatch::DescribeCycle(const Stalls& stalls) const {
  // The longest wait of each rank. A missing rank that waits for no other keeps the others waiting.
  absl::btree_map<uint32_t, Stalls::const_iterator> wait_of;
  for (auto it = stalls.begin(); it != stalls.end(); ++it) {
    for (const uint32_t rank : it->second.waiting) {
      const auto [known, is_new] = wait_of.try_emplace(rank, it);
      if (!is_new && it->second.oldest < known->second->second.oldest) known->second = it;
    }
  }
  const auto next_of = [&wait_of](uint32_t rank) {
    const std::vector<uint32_t>& missing = wait_of.at(rank)->second.missing;
    const bool all_wait = absl::c_all_of(missing, [&wait_of](uint32_t other) { return wait_of.contains(other); });
    return missing.empty() || !all_wait ? std::nullopt : std::optional<uint32_t>(missing.front());
  };
  absl::btree_set<uint32_t> seen;
  for (const auto& [first, unused] : wait_of) {
    std::vector<uint32_t> path;
    for (std::optional<uint32_t> rank = first; rank.has_value(); rank = next_of(*rank)) {
      const auto again = absl::c_find(path, *rank);
      if (again != path.end()) {
        path.erase(path.begin(), again);
        return ShowCycle(path, wait_of);
      }
      if (!seen.insert(*rank).second) break;
      path.push_back(*rank);
    }
  }
  return "";
}

std::string StallWatch::Describe(const Tensor& tensor, const Stall& stall, absl::Time now) const {
  const std::string subject =
      absl::StrCat("tensor ", Plain(tensor.second), " (", ShowOp(stall.op), ", group ", tensor.first, "): ");
  const std::vector<uint32_t> waiting(stall.waiting.begin(), stall.waiting.end());
  if (stall.lacks_slot) {
    return absl::StrCat(subject, ShowRanks(waiting), waiting.size() == 1 ? " has" : " have",
                        " submitted it, and it has waited ", ShowDuration(now - stall.youngest), " for one of the ",
                        negotiation_.max_slots(), " slots, which are all in use (--max-slots, FARANDOLE_MAX_SLOTS)");
  }
  if (stall.missing.empty()) {
    return absl::StrCat(subject, ShowRanks(waiting), waiting.size() == 1 ? " has" : " have",
                        " submitted it, nobody is missing, and it has not completed for ",
                        ShowDuration(now - stall.youngest));
  }
  std::vector<std::string> missing;
  for (const uint32_t rank : stall.missing) {
    if (missing.size() == kMostRanksNamed) break;
    missing.push_back(DescribeMissing(rank, now));
  }
  const size_t more = stall.missing.size() - missing.size();
  return absl::StrCat(subject, ShowRanks(waiting), waiting.size() == 1 ? " has" : " have", " waited ",
                      ShowDuration(now - stall.oldest), "; missing ", stall.missing.size() == 1 ? "is " : "are ",
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
