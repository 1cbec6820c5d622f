#include "server/registry/token_table.h"

#include <algorithm>
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

}  // namespace

void TokenTable::Put(v1::TokenRecord record) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string id = record.about().id();
  by_tenant_.insert({record.about().tenant(), id});
  entries_[id].record = std::move(record);
  ++revision_;
}

void TokenTable::Erase(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  by_tenant_.erase({found->second.record.about().tenant(), id});
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
  entry.last_used_unix_ms = std::max(entry.last_used_unix_ms, absl::ToUnixMillis(now));
  return entry.record.about();
}

absl::Status TokenTable::CheckStanding(absl::string_view id, absl::Time now, bool while_unexpired) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return Unknown();
  const std::string end = while_unexpired ? EndOf(found->second, now) : RevocationOf(found->second);
  return end.empty() ? absl::OkStatus() : absl::UnauthenticatedError(end);
}

std::string TokenTable::EndOf(const Entry& entry, absl::Time now) const {
  const v1::Token& about = entry.record.about();
  if (IsOver(about.expires_unix_ms(), now))
    return absl::StrCat("token ", about.id(), " expired at ", Show(about.expires_unix_ms()));
  return RevocationOf(entry);
}

std::string TokenTable::RevocationOf(const Entry& entry) const {
  const v1::Token* about = &entry.record.about();
  if (about->revoked_unix_ms() != 0)
    return absl::StrCat("token ", about->id(), " was revoked at ", Show(about->revoked_unix_ms()));
  // A token is made later than the one it was made with, so that this ends.
  for (auto maker = entries_.find(about->made_with()); maker != entries_.end();
       maker = entries_.find(about->made_with())) {
    const v1::TokenRecord& record = maker->second.record;
    if (record.is_revoked_with_made() && about->created_unix_ms() >= record.made_since_unix_ms()) {
      return absl::StrCat("token ", entry.record.about().id(), " ended at ", Show(record.about().revoked_unix_ms()),
                          ": token ", record.about().id(), " was revoked with those that were made with it");
    }
    about = &record.about();
  }
  return "";
}

v1::Token TokenTable::AboutLocked(const Entry& entry, absl::Time now) const {
  v1::Token about = entry.record.about();
  about.set_last_used_unix_ms(entry.last_used_unix_ms);
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

size_t TokenTable::CountWithMade(const std::string& id, int64_t since_unix_ms, absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t count = 0;
  for (const auto& [other, entry] : entries_) {
    if (other == id || !EndOf(entry, now).empty()) continue;
    for (const v1::Token* about = &entry.record.about(); !about->made_with().empty();) {
      if (about->made_with() == id) {
        count += about->created_unix_ms() >= since_unix_ms ? 1 : 0;
        break;
      }
      const auto maker = entries_.find(about->made_with());
      if (maker == entries_.end()) break;
      about = &maker->second.record.about();
    }
  }
  return count;
}

std::pair<size_t, std::string> TokenTable::RoomOf(absl::string_view tenant, absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  absl::btree_set<std::string> makers;
  for (const auto& [id, entry] : entries_) makers.insert(entry.record.about().made_with());
  size_t kept = 0;
  const v1::Token* forgotten = nullptr;
  for (auto one = by_tenant_.lower_bound({std::string(tenant), ""}); one != by_tenant_.end() && one->first == tenant;
       ++one) {
    ++kept;
    const Entry& entry = entries_.at(one->second);
    const v1::Token& about = entry.record.about();
    const bool is_over = !RevocationOf(entry).empty() || IsOver(about.expires_unix_ms(), now - kExpiredKept);
    if (!is_over || makers.contains(about.id())) continue;
    if (forgotten == nullptr || about.created_unix_ms() < forgotten->created_unix_ms()) forgotten = &about;
  }
  return {kept, forgotten == nullptr ? "" : forgotten->id()};
}

void TokenTable::SetUsed(const std::string& id, int64_t last_used_unix_ms) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  found->second.last_used_unix_ms = found->second.told_unix_ms = last_used_unix_ms;
}

std::vector<v1::Token> TokenTable::TakeUses() {
  std::vector<v1::Token> uses;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [id, entry] : entries_) {
    if (entry.last_used_unix_ms < entry.told_unix_ms + absl::ToInt64Milliseconds(kUseStep)) continue;
    entry.told_unix_ms = entry.last_used_unix_ms;
    v1::Token use;
    use.set_id(id);
    use.set_tenant(entry.record.about().tenant());
    use.set_last_used_unix_ms(entry.last_used_unix_ms);
    uses.push_back(std::move(use));
  }
  return uses;
}

}  // namespace farandole
