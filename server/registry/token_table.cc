#include "server/registry/token_table.h"

#include <algorithm>
#include <set>
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

bool HasEnded(int64_t end_unix_ms, absl::Time now) {
  return end_unix_ms != 0 && end_unix_ms <= absl::ToUnixMillis(now);
}

absl::Status Unknown() { return absl::UnauthenticatedError("the token is not known to this coordinator"); }

}  // namespace

void TokenTable::Put(v1::TokenRecord record) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string id = record.about().id();
  by_tenant_.insert({record.about().tenant(), id});
  lineage_.Put(record);
  const v1::TokenRecord& kept = entries_[id].record = std::move(record);
  if (kept.is_revoked_with_made()) Take(id, kept.made_since_unix_ms(), id);
  // The earliest way by which it may have been taken.
  std::optional<int64_t> earliest;
  std::string by;
  for (const auto& [origin, link] : lineage_.OriginsOf(id)) {
    const auto found = entries_.find(origin);
    if (found == entries_.end() || !found->second.taken_unix_ms.has_value()) continue;
    const std::optional<int64_t> taken = link.TakenThrough(*found->second.taken_unix_ms);
    if (!taken.has_value() || (earliest.has_value() && *earliest <= *taken)) continue;
    earliest = taken;
    by = found->second.taken_by;
  }
  if (earliest.has_value()) Take(id, *earliest, by);
  ++revision_;
}

void TokenTable::Take(const std::string& id, int64_t since_unix_ms, const std::string& by) {
  // The reach of those that were taken as early was taken with them.
  const auto is_taken = [this](const std::string& reached, int64_t since) {
    const std::optional<int64_t>& taken = entries_.at(reached).taken_unix_ms;
    return taken.has_value() && *taken <= since;
  };
  for (const auto& [reached, since] : lineage_.ReachOf(id, since_unix_ms, is_taken)) {
    Entry& entry = entries_.at(reached);
    entry.taken_unix_ms = since;
    entry.taken_by = by;
  }
}

void TokenTable::Erase(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  by_tenant_.erase({found->second.record.about().tenant(), id});
  lineage_.Erase(id);
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
  if (HasEnded(own->ends_unix_ms(), now)) {
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
  if (HasEnded(about.expires_unix_ms(), now))
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
    if (secret.ends_unix_ms() != 0 && !HasEnded(secret.ends_unix_ms(), now))
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
  for (const auto& [other, since] : lineage_.ReachOf(id, since_unix_ms)) {
    if (other != id && EndOf(entries_.at(other), now).empty()) ending.push_back(other);
  }
  return ending;
}

bool TokenTable::HasMadeGoodOnes(const std::string& id) const {
  const TokenLineage::Links& others = lineage_.DerivedFrom(id);
  return std::any_of(others.begin(), others.end(), [this](const auto& other) {
    return other.second.made_unix_ms.has_value() && RevocationOf(entries_.at(other.first)).empty();
  });
}

std::vector<std::string> TokenTable::EndedByWayOf(const Entry& entry) const {
  std::vector<std::string> ended;
  if (!entry.taken_unix_ms.has_value()) return ended;
  for (const auto& [id, since] : lineage_.ReachOf(entry.record.about().id(), *entry.taken_unix_ms)) {
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

bool TokenTable::HasLongExpired(absl::string_view id, absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  return found != entries_.end() && HasLongExpired(found->second, now);
}

bool TokenTable::HasLongExpired(const Entry& entry, absl::Time now) const {
  const absl::Time then = now - kExpiredKept;
  return HasEnded(entry.record.about().expires_unix_ms(), then) &&
         entry.use.last_run_unix_ms() <= absl::ToUnixMillis(then);
}

bool TokenTable::IsOver(const Entry& entry, absl::Time now) const {
  return HasLongExpired(entry, now) || !RevocationOf(entry).empty();
}

TokenTable::Room TokenTable::RoomOf(absl::string_view tenant, absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> over;
  for (auto one = by_tenant_.lower_bound({std::string(tenant), ""}); one != by_tenant_.end() && one->first == tenant;
       ++one) {
    if (IsOver(entries_.at(one->second), now)) over.push_back(one->second);
  }
  const auto created = [this](const std::string& id) { return entries_.at(id).record.about().created_unix_ms(); };
  std::stable_sort(over.begin(), over.end(),
                   [&](const std::string& a, const std::string& b) { return created(a) < created(b); });
  const auto leaf = std::find_if(over.begin(), over.end(),
                                 [this](const std::string& id) { return lineage_.DerivedFrom(id).empty(); });
  if (leaf != over.end()) return {*leaf};
  over.erase(std::remove_if(over.begin(), over.end(), [this](const auto& id) { return HasMadeGoodOnes(id); }),
             over.end());
  if (over.empty()) return {};
  const auto is_good = [this, now](const std::string& id) { return !IsOver(entries_.at(id), now); };
  const std::set<std::string> reaching = lineage_.ThoseThatReach(over, is_good);
  const auto spent =
      std::find_if(over.begin(), over.end(), [&](const std::string& id) { return reaching.count(id) == 0; });
  const std::string& forgotten = spent == over.end() ? over.front() : *spent;
  return {forgotten, EndedByWayOf(entries_.at(forgotten))};
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
