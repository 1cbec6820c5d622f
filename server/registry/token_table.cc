#include "server/registry/token_table.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/secrets/secrets.h"
#include "base/sha256.h"
#include "base/text/time_text.h"
#include "server/registry/rights.h"
#include "server/registry/token_text.h"

namespace farandole {
namespace {

constexpr absl::Duration kExpiredKept = absl::Hours(24 * 30);
// A token's last use is known to about this.
constexpr absl::Duration kUseStep = absl::Minutes(1);

std::string Show(int64_t unix_ms) { return UtcText(absl::FromUnixMillis(unix_ms)); }

bool IsOver(int64_t end_unix_ms, absl::Time now) { return end_unix_ms != 0 && end_unix_ms <= absl::ToUnixMillis(now); }

absl::Status Unknown() { return absl::UnauthenticatedError("the token is not known to this coordinator"); }

// The tokens by which this one was made and rotated.
std::vector<std::string> OriginsOf(const v1::TokenRecord& record) {
  std::vector<std::string> origins;
  if (!record.about().made_with().empty()) origins.push_back(record.about().made_with());
  for (const v1::TokenRecord::Rotation& rotation : record.rotations()) origins.push_back(rotation.token_id());
  return origins;
}

// Since when the token may be in the hands of somebody who has had its origin `with` since `since`; nullopt: never.
std::optional<int64_t> TakenThrough(const v1::TokenRecord& record, const std::string& with, int64_t since_unix_ms) {
  const v1::Token& about = record.about();
  if (about.made_with() == with && about.created_unix_ms() >= since_unix_ms) return since_unix_ms;
  for (const v1::TokenRecord::Rotation& rotation : record.rotations()) {
    if (rotation.token_id() == with && rotation.last_unix_ms() >= since_unix_ms)
      return std::max(rotation.first_unix_ms(), since_unix_ms);
  }
  return std::nullopt;
}

}  // namespace

void TokenTable::Put(v1::TokenRecord record) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string id = record.about().id();
  by_tenant_.insert({record.about().tenant(), id});
  if (const auto known = entries_.find(id); known != entries_.end()) {
    for (const std::string& origin : OriginsOf(known->second.record)) by_origin_.erase({origin, id});
  }
  const std::vector<std::string> origins = OriginsOf(record);
  for (const std::string& origin : origins) by_origin_.insert({origin, id});
  const v1::TokenRecord& kept = entries_[id].record = std::move(record);
  if (kept.is_revoked_with_made()) Take(id, kept.made_since_unix_ms(), id);
  for (const std::string& origin : origins) {
    const auto found = entries_.find(origin);
    if (found == entries_.end() || !found->second.taken_unix_ms.has_value()) continue;
    const std::optional<int64_t> taken = TakenThrough(kept, origin, *found->second.taken_unix_ms);
    if (taken.has_value()) Take(id, *taken, found->second.taken_by);
  }
  ++revision_;
}

absl::btree_map<std::string, int64_t> TokenTable::ReachOf(const std::string& id, int64_t since_unix_ms) const {
  absl::btree_map<std::string, int64_t> reached;
  // No token is taken earlier than its origin, so that the first way to a token is the earliest one.
  using Way = std::pair<int64_t, std::string>;
  std::priority_queue<Way, std::vector<Way>, std::greater<Way>> ways;
  ways.push({since_unix_ms, id});
  while (!ways.empty()) {
    const Way way = ways.top();
    ways.pop();
    const auto& [since, origin] = way;
    if (!reached.emplace(origin, since).second) continue;
    for (auto one = by_origin_.lower_bound({origin, ""}); one != by_origin_.end() && one->first == origin; ++one) {
      if (reached.contains(one->second)) continue;
      const std::optional<int64_t> taken = TakenThrough(entries_.at(one->second).record, origin, since);
      if (taken.has_value()) ways.push({*taken, one->second});
    }
  }
  return reached;
}

void TokenTable::Take(const std::string& id, int64_t since_unix_ms, const std::string& by) {
  for (const auto& [reached, since] : ReachOf(id, since_unix_ms)) {
    Entry& entry = entries_.at(reached);
    if (entry.taken_unix_ms.has_value() && *entry.taken_unix_ms <= since) continue;
    entry.taken_unix_ms = since;
    entry.taken_by = by;
  }
}

void TokenTable::Erase(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  by_tenant_.erase({found->second.record.about().tenant(), id});
  for (const std::string& origin : OriginsOf(found->second.record)) by_origin_.erase({origin, id});
  entries_.erase(found);
  ++revision_;
}

uint64_t TokenTable::revision() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return revision_;
}

std::optional<v1::TokenRecord> TokenTable::Find(absl::string_view id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return std::nullopt;
  return found->second.record;
}

bool TokenTable::Has(absl::string_view id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return entries_.contains(id);
}

absl::StatusOr<v1::Token> TokenTable::Authenticate(absl::string_view text, absl::Time now) {
  const std::string id = TokenIdOf(text);
  const std::string digest = Sha256(text);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return Unknown();
  Entry& entry = found->second;
  const v1::TokenRecord::Secret* own = nullptr;
  for (const v1::TokenRecord::Secret& secret : entry.record.secrets()) {
    if (EqualSecrets(secret.sha256(), digest)) own = &secret;
  }
  if (own == nullptr) return Unknown();
  if (const std::string end = EndOf(entry, now); !end.empty()) return absl::UnauthenticatedError(end);
  if (IsOver(own->ends_unix_ms(), now)) {
    return absl::UnauthenticatedError(absl::StrCat(
        "token ", id, " has another secret since its rotation; this one ended at ", Show(own->ends_unix_ms())));
  }
  entry.use.set_last_used_unix_ms(std::max(entry.use.last_used_unix_ms(), absl::ToUnixMillis(now)));
  return entry.record.about();
}

absl::Status TokenTable::CheckStanding(absl::string_view id, absl::Time now, bool while_unexpired) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return Unknown();
  const std::string end = while_unexpired ? EndOf(found->second, now) : RevocationOf(found->second);
  return end.empty() ? absl::OkStatus() : absl::UnauthenticatedError(end);
}

absl::Status TokenTable::CheckRun(absl::string_view id, absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return Unknown();
  Entry& entry = found->second;
  if (const std::string end = RevocationOf(entry); !end.empty()) return absl::UnauthenticatedError(end);
  entry.use.set_last_run_unix_ms(std::max(entry.use.last_run_unix_ms(), absl::ToUnixMillis(now)));
  return absl::OkStatus();
}

std::string TokenTable::EndOf(const Entry& entry, absl::Time now) const {
  const v1::Token& about = entry.record.about();
  if (IsOver(about.expires_unix_ms(), now))
    return absl::StrCat("token ", about.id(), " expired at ", Show(about.expires_unix_ms()));
  return RevocationOf(entry);
}

std::string TokenTable::RevocationOf(const Entry& entry) const {
  const v1::Token& about = entry.record.about();
  if (about.revoked_unix_ms() != 0)
    return absl::StrCat("token ", about.id(), " was revoked at ", Show(about.revoked_unix_ms()));
  if (!entry.taken_unix_ms.has_value()) return "";
  // It is kept while a token hangs on it.
  const v1::Token& by = entries_.at(entry.taken_by).record.about();
  return absl::StrCat("token ", about.id(), " ended at ", Show(by.revoked_unix_ms()), ": token ", by.id(),
                      " was revoked with those that were made or rotated with it");
}

v1::Token TokenTable::AboutLocked(const Entry& entry, absl::Time now) const {
  v1::Token about = entry.record.about();
  about.set_last_used_unix_ms(entry.use.last_used_unix_ms());
  about.set_ended(EndOf(entry, now));
  for (const v1::TokenRecord::Secret& secret : entry.record.secrets()) {
    if (secret.ends_unix_ms() != 0 && !IsOver(secret.ends_unix_ms(), now))
      about.set_overlap_ends_unix_ms(secret.ends_unix_ms());
  }
  return about;
}

std::vector<v1::Token> TokenTable::List(absl::string_view tenant, absl::Time now) const {
  std::vector<v1::Token> tokens;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto one = by_tenant_.lower_bound({std::string(tenant), ""}); one != by_tenant_.end(); ++one) {
    if (!tenant.empty() && one->first != tenant) break;
    tokens.push_back(AboutLocked(entries_.at(one->second), now));
  }
  std::sort(tokens.begin(), tokens.end(), [](const v1::Token& a, const v1::Token& b) {
    return std::forward_as_tuple(a.tenant(), a.created_unix_ms(), a.id()) <
           std::forward_as_tuple(b.tenant(), b.created_unix_ms(), b.id());
  });
  return tokens;
}

std::vector<std::string> TokenTable::EndingWith(const std::string& id, int64_t since_unix_ms, absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> ending;
  for (const auto& [other, since] : ReachOf(id, since_unix_ms)) {
    if (other != id && EndOf(entries_.at(other), now).empty()) ending.push_back(other);
  }
  return ending;
}

bool TokenTable::HasOthers(const Entry& entry) const {
  const std::string& id = entry.record.about().id();
  const auto first = by_origin_.lower_bound({id, ""});
  return first != by_origin_.end() && first->first == id;
}

TokenTable::Loss TokenTable::LossOf(const Entry& entry) const {
  const std::string& id = entry.record.about().id();
  const auto has_ended = [this](const std::string& one) { return !RevocationOf(entries_.at(one)).empty(); };
  for (auto one = by_origin_.lower_bound({id, ""}); one != by_origin_.end() && one->first == id; ++one) {
    if (entries_.at(one->second).record.about().made_with() == id && !has_ended(one->second)) return Loss::kTooMuch;
  }
  const auto reached = ReachOf(id, 0);
  const bool all_ended = std::all_of(reached.begin(), reached.end(),
                                     [&](const auto& one) { return one.first == id || has_ended(one.first); });
  return all_ended ? Loss::kOthersEnds : Loss::kRotations;
}

std::vector<std::string> TokenTable::EndedByWayOf(const Entry& entry) const {
  std::vector<std::string> ended;
  if (!entry.taken_unix_ms.has_value()) return ended;
  for (const auto& [id, since] : ReachOf(entry.record.about().id(), *entry.taken_unix_ms)) {
    if (id != entry.record.about().id() && entries_.at(id).record.about().revoked_unix_ms() == 0) ended.push_back(id);
  }
  return ended;
}

size_t TokenTable::CountOf(absl::string_view tenant) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t kept = 0;
  for (auto one = by_tenant_.lower_bound({std::string(tenant), ""}); one != by_tenant_.end() && one->first == tenant;
       ++one) {
    ++kept;
  }
  return kept;
}

TokenTable::Room TokenTable::RoomOf(absl::string_view tenant, absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<const Entry*> over;
  for (auto one = by_tenant_.lower_bound({std::string(tenant), ""}); one != by_tenant_.end() && one->first == tenant;
       ++one) {
    const Entry& entry = entries_.at(one->second);
    const bool has_expired = IsOver(entry.record.about().expires_unix_ms(), now - kExpiredKept) &&
                             entry.use.last_run_unix_ms() <= absl::ToUnixMillis(now - kExpiredKept);
    if (has_expired || !RevocationOf(entry).empty()) over.push_back(&entry);
  }
  std::stable_sort(over.begin(), over.end(), [](const Entry* a, const Entry* b) {
    return a->record.about().created_unix_ms() < b->record.about().created_unix_ms();
  });
  const auto leaf = std::find_if(over.begin(), over.end(), [this](const Entry* one) { return !HasOthers(*one); });
  if (leaf != over.end()) return {(*leaf)->record.about().id()};
  const Entry* forgotten = nullptr;
  for (const Entry* one : over) {
    const Loss loss = LossOf(*one);
    if (loss == Loss::kOthersEnds || (loss == Loss::kRotations && forgotten == nullptr)) forgotten = one;
    if (loss == Loss::kOthersEnds) break;
  }
  if (forgotten == nullptr) return {};
  return {forgotten->record.about().id(), EndedByWayOf(*forgotten)};
}

void TokenTable::SetUsed(const std::string& id, v1::TokenUseRecord use) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  found->second.use = found->second.told_use = std::move(use);
}

std::vector<TokenTable::Use> TokenTable::TakeUses() {
  const int64_t step = absl::ToInt64Milliseconds(kUseStep);
  std::vector<Use> uses;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [id, entry] : entries_) {
    const v1::TokenUseRecord &use = entry.use, &told = entry.told_use;
    if (use.last_used_unix_ms() < told.last_used_unix_ms() + step &&
        use.last_run_unix_ms() < told.last_run_unix_ms() + step) {
      continue;
    }
    entry.told_use = use;
    uses.push_back({entry.record.about().tenant(), id, use});
  }
  return uses;
}

}  // namespace farandole
