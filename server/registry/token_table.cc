#include "server/registry/token_table.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

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
// Copied with the lock held, in some 5 us.
constexpr size_t kMostLinksAtOnce = 64;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

std::string Show(int64_t unix_ms) { return UtcText(absl::FromUnixMillis(unix_ms)); }

bool HasEnded(int64_t end_unix_ms, absl::Time now) {
  return end_unix_ms != 0 && end_unix_ms <= absl::ToUnixMillis(now);
}

int64_t GoodUntil(const v1::Token& about) { return about.expires_unix_ms() == 0 ? kNever : about.expires_unix_ms(); }

absl::Status Unknown() { return absl::UnauthenticatedError("the token is not known to this coordinator"); }

// How the token was revoked; "": it was not. `taken_by`: the token that was revoked with this one; null: none.
std::string RevocationText(const v1::Token& about, const v1::TokenRecord* taken_by) {
  if (about.revoked_unix_ms() != 0)
    return absl::StrCat("token ", about.id(), " was revoked at ", Show(about.revoked_unix_ms()));
  if (taken_by == nullptr) return "";
  const v1::Token& by = taken_by->about();
  return absl::StrCat("token ", about.id(), " ended at ", Show(by.revoked_unix_ms()), ": token ", by.id(),
                      " was revoked with those that were made or rotated with it");
}

// The same, or how it expired.
std::string EndText(const v1::Token& about, const v1::TokenRecord* taken_by, absl::Time now) {
  if (HasEnded(about.expires_unix_ms(), now))
    return absl::StrCat("token ", about.id(), " expired at ", Show(about.expires_unix_ms()));
  return RevocationText(about, taken_by);
}

// A token of a list, as the lock gives it.
struct Listed {
  // shared: with the table.
  std::shared_ptr<const v1::TokenRecord> record;
  std::shared_ptr<const v1::TokenRecord> taken_by;
  int64_t last_used_unix_ms;
};

v1::Token AboutOf(const Listed& listed, absl::Time now) {
  v1::Token about = listed.record->about();
  about.set_last_used_unix_ms(listed.last_used_unix_ms);
  about.set_ended(EndText(about, listed.taken_by.get(), now));
  for (const v1::TokenRecord::Secret& secret : listed.record->secrets()) {
    if (secret.ends_unix_ms() != 0 && !HasEnded(secret.ends_unix_ms(), now))
      about.set_overlap_ends_unix_ms(secret.ends_unix_ms());
  }
  return about;
}

}  // namespace

void TokenTable::Put(v1::TokenRecord record) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string id = record.about().id();
  lineage_.Put(record);
  const auto kept = std::make_shared<const v1::TokenRecord>(std::move(record));
  Entry& entry = entries_[id];
  if (entry.record != nullptr) CountOut(entry);
  entry.record = kept;
  tenants_[kept->about().tenant()].ids.insert(id);
  CountIn(entry);
  if (kept->is_revoked_with_made()) Take(id, kept->made_since_unix_ms(), id);
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
    CountOut(entry);
    entry.taken_unix_ms = since;
    entry.taken_by = by;
  }
}

void TokenTable::Erase(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  CountOut(found->second);
  const auto tenant = tenants_.find(found->second.record->about().tenant());
  tenant->second.ids.erase(id);
  if (tenant->second.ids.empty()) tenants_.erase(tenant);
  lineage_.Erase(id);
  untold_.erase(id);
  entries_.erase(found);
  ++revision_;
}

const TokenTable::Kept& TokenTable::KeptOf(absl::string_view tenant) const {
  static const auto& none = *new Kept();
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? none : found->second;
}

void TokenTable::CountIn(const Entry& entry) {
  if (IsRevoked(entry)) return;
  const v1::Token& about = entry.record->about();
  std::vector<int64_t>& until = tenants_.at(about.tenant()).good_until_unix_ms;
  const int64_t end = GoodUntil(about);
  until.insert(std::upper_bound(until.begin(), until.end(), end), end);
}

void TokenTable::CountOut(const Entry& entry) {
  if (IsRevoked(entry)) return;
  const v1::Token& about = entry.record->about();
  std::vector<int64_t>& until = tenants_.at(about.tenant()).good_until_unix_ms;
  until.erase(std::lower_bound(until.begin(), until.end(), GoodUntil(about)));
}

uint64_t TokenTable::revision() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return revision_;
}

std::optional<v1::TokenRecord> TokenTable::Find(absl::string_view id) const {
  std::shared_ptr<const v1::TokenRecord> record;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) return std::nullopt;
    record = found->second.record;
  }
  return *record;
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
  for (const v1::TokenRecord::Secret& secret : entry.record->secrets()) {
    if (EqualSecrets(secret.sha256(), digest)) own = &secret;
  }
  if (own == nullptr) return Unknown();
  if (const std::string end = EndOf(entry, now); !end.empty()) return absl::UnauthenticatedError(end);
  if (HasEnded(own->ends_unix_ms(), now)) {
    return absl::UnauthenticatedError(absl::StrCat(
        "token ", id, " has another secret since its rotation; this one ended at ", Show(own->ends_unix_ms())));
  }
  entry.use.set_last_used_unix_ms(std::max(entry.use.last_used_unix_ms(), absl::ToUnixMillis(now)));
  NoteUse(entry);
  return entry.record->about();
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
  NoteUse(entry);
  return absl::OkStatus();
}

std::shared_ptr<const v1::TokenRecord> TokenTable::TakerOf(const Entry& entry) const {
  // It is kept while a token hangs on it whose own row does not say that it was revoked.
  if (entry.record->about().revoked_unix_ms() != 0 || !entry.taken_unix_ms.has_value()) return nullptr;
  return entries_.at(entry.taken_by).record;
}

std::string TokenTable::EndOf(const Entry& entry, absl::Time now) const {
  return EndText(entry.record->about(), TakerOf(entry).get(), now);
}

std::string TokenTable::RevocationOf(const Entry& entry) const {
  return RevocationText(entry.record->about(), TakerOf(entry).get());
}

bool TokenTable::IsRevoked(const Entry& entry) {
  return entry.record->about().revoked_unix_ms() != 0 || entry.taken_unix_ms.has_value();
}

bool TokenTable::IsGood(const Entry& entry, absl::Time now) {
  return !HasEnded(entry.record->about().expires_unix_ms(), now) && !IsRevoked(entry);
}

std::vector<v1::Token> TokenTable::List(absl::string_view tenant, absl::Time now) const {
  std::vector<Listed> listed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::string& id : KeptOf(tenant).ids) {
      const Entry& entry = entries_.at(id);
      listed.push_back({entry.record, TakerOf(entry), entry.use.last_used_unix_ms()});
    }
  }
  const auto key = [](const Listed& one) {
    return std::pair<int64_t, absl::string_view>(one.record->about().created_unix_ms(), one.record->about().id());
  };
  std::sort(listed.begin(), listed.end(), [&](const Listed& a, const Listed& b) { return key(a) < key(b); });
  std::vector<v1::Token> tokens;
  tokens.reserve(listed.size());
  for (const Listed& one : listed) tokens.push_back(AboutOf(one, now));
  return tokens;
}

std::vector<std::string> TokenTable::EndingWith(const std::string& id, int64_t since_unix_ms, absl::Time now) const {
  return FindEndingWith(id, since_unix_ms, now, std::numeric_limits<size_t>::max());
}

bool TokenTable::EndsAnyWith(const std::string& id, int64_t since_unix_ms, absl::Time now) const {
  return !FindEndingWith(id, since_unix_ms, now, 1).empty();
}

std::vector<std::string> TokenTable::FindEndingWith(const std::string& id, int64_t since_unix_ms, absl::Time now,
                                                    size_t most) const {
  std::vector<std::string> ending;
  TokenLineage::Walk walk(id, since_unix_ms);
  while (ending.size() < most && walk.Next()) {
    Step step = StepOf(walk, "", now);
    if (step.is_taken) continue;
    walk.Enter();
    if (step.is_good && walk.id() != id) ending.push_back(walk.id());
    for (;;) {
      for (const auto& [other, link] : step.links) walk.Follow(other, link);
      if (step.links.size() < kMostLinksAtOnce) break;
      step = StepOf(walk, step.links.back().first, now);
    }
  }
  return ending;
}

TokenTable::Step TokenTable::StepOf(const TokenLineage::Walk& walk, const std::string& behind, absl::Time now) const {
  Step step;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto found = entries_.find(walk.id()); found != entries_.end()) {
    const std::optional<int64_t>& taken = found->second.taken_unix_ms;
    step.is_good = IsGood(found->second, now);
    step.is_taken = taken.has_value() && *taken <= walk.since_unix_ms();
  }
  if (step.is_taken) return step;
  const TokenLineage::Links& links = lineage_.DerivedFrom(walk.id());
  for (auto link = links.upper_bound(behind); link != links.end() && step.links.size() < kMostLinksAtOnce; ++link)
    step.links.push_back(*link);
  return step;
}

bool TokenTable::HasMadeGoodOnes(const std::string& id) const {
  const TokenLineage::Links& others = lineage_.DerivedFrom(id);
  return std::any_of(others.begin(), others.end(), [this](const auto& other) {
    return other.second.made_unix_ms.has_value() && !IsRevoked(entries_.at(other.first));
  });
}

std::vector<std::string> TokenTable::EndedByWayOf(const Entry& entry) const {
  std::vector<std::string> ended;
  if (!entry.taken_unix_ms.has_value()) return ended;
  for (const auto& [id, since] : lineage_.ReachOf(entry.record->about().id(), *entry.taken_unix_ms)) {
    if (id != entry.record->about().id() && entries_.at(id).record->about().revoked_unix_ms() == 0) ended.push_back(id);
  }
  return ended;
}

size_t TokenTable::CountOf(absl::string_view tenant) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return KeptOf(tenant).ids.size();
}

size_t TokenTable::CountGood(absl::string_view tenant, absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::vector<int64_t>& until = KeptOf(tenant).good_until_unix_ms;
  const auto first = std::upper_bound(until.begin(), until.end(), absl::ToUnixMillis(now));
  return static_cast<size_t>(until.end() - first);
}

bool TokenTable::HasLongExpired(absl::string_view id, absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  return found != entries_.end() && HasLongExpired(found->second, now);
}

bool TokenTable::HasLongExpired(const Entry& entry, absl::Time now) const {
  const absl::Time then = now - kExpiredKept;
  return HasEnded(entry.record->about().expires_unix_ms(), then) &&
         entry.use.last_run_unix_ms() <= absl::ToUnixMillis(then);
}

bool TokenTable::IsOver(const Entry& entry, absl::Time now) const {
  return HasLongExpired(entry, now) || IsRevoked(entry);
}

TokenTable::Room TokenTable::RoomOf(absl::string_view tenant, absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> over;
  for (const std::string& id : KeptOf(tenant).ids) {
    if (IsOver(entries_.at(id), now)) over.push_back(id);
  }
  const auto created = [this](const std::string& id) { return entries_.at(id).record->about().created_unix_ms(); };
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

void TokenTable::NoteUse(const Entry& entry) {
  const int64_t step = absl::ToInt64Milliseconds(kUseStep);
  const v1::TokenUseRecord &use = entry.use, &told = entry.told_use;
  if (use.last_used_unix_ms() >= told.last_used_unix_ms() + step ||
      use.last_run_unix_ms() >= told.last_run_unix_ms() + step) {
    untold_.insert(entry.record->about().id());
  }
}

std::vector<TokenTable::Use> TokenTable::TakeUses() {
  std::vector<Use> uses;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::string& id : std::exchange(untold_, {})) {
    Entry& entry = entries_.at(id);
    entry.told_use = entry.use;
    uses.push_back({entry.record->about().tenant(), id, entry.use});
  }
  return uses;
}

}  // namespace farandole
