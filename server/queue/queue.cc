#include "server/queue/queue.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// The most that the tenant can have, if no other tenant of the pool has any.
uint64_t MostWorkers(const TenantRoom& room, const Pool& pool) {
  return std::min(uint64_t{room.max_workers} + room.borrow, pool.max_workers);
}

}  // namespace

void Pool::Add(const std::string& tenant, const TenantRoom& room) {
  tenants[tenant] = room;
  max_jobs += room.max_jobs;
  max_workers += room.max_workers;
  workers += room.workers;
}

void Pool::Use(const std::string& tenant, uint64_t count) {
  TenantRoom& room = tenants.at(tenant);
  ++room.jobs;
  room.workers += count;
  workers += count;
}

bool Queue::Precedes::operator()(const Entry& a, const Entry& b) const {
  return std::tie(b.priority, a.came, a.ticket, a.key) < std::tie(a.priority, b.came, b.ticket, b.key);
}

bool Queue::Rank::operator<(const Rank& other) const {
  return std::tie(borrows, reserved_since, share, came, ticket) <
         std::tie(other.borrows, other.reserved_since, other.share, other.came, other.ticket);
}

void Queue::Put(Entry entry) {
  const JobKey key = entry.key;
  if (entry.first_since != absl::InfiniteFuture()) noted_[key.tenant] = key;
  order_[key] = lines_[key.tenant].insert(std::move(entry)).first;
}

bool Queue::Remove(const JobKey& key) {
  const auto found = order_.find(key);
  if (found == order_.end()) return false;
  const auto line = lines_.find(key.tenant);
  line->second.erase(found->second);
  if (line->second.empty()) lines_.erase(line);
  order_.erase(found);
  if (const auto noted = noted_.find(key.tenant); noted != noted_.end() && noted->second == key) noted_.erase(noted);
  return true;
}

const Queue::Entry* Queue::Find(const JobKey& key) const {
  const auto found = order_.find(key);
  return found == order_.end() ? nullptr : &*found->second;
}

size_t Queue::CountOf(const std::string& tenant) const {
  const Line* line = LineOf(tenant);
  return line == nullptr ? 0 : line->size();
}

std::vector<std::string> Queue::Tenants() const {
  std::vector<std::string> tenants;
  for (const auto& [tenant, line] : lines_) tenants.push_back(tenant);
  return tenants;
}

const Queue::Line* Queue::LineOf(const std::string& tenant) const {
  const auto found = lines_.find(tenant);
  return found == lines_.end() ? nullptr : &found->second;
}

Queue::Verdict Queue::Judge(const Entry& entry, const Pool& pool) {
  const TenantRoom& room = pool.tenants.at(entry.key.tenant);
  const uint64_t wanted = room.workers + entry.workers;
  Verdict verdict;
  verdict.borrows = wanted > room.max_workers;
  if (entry.workers > MostWorkers(room, pool)) {
    verdict.lack = Lack::kEver;
  } else if (room.jobs >= room.max_jobs) {
    verdict.lack = Lack::kJobs;
  } else if (wanted > uint64_t{room.max_workers} + room.borrow) {
    verdict.lack = Lack::kWorkers;
  } else if (pool.workers + entry.workers > pool.max_workers) {
    verdict.lack = Lack::kPool;
  }
  return verdict;
}

const Queue::Entry* Queue::FirstOf(const std::string& tenant, const Pool& pool, absl::Time now) const {
  const Line* line = LineOf(tenant);
  if (line == nullptr) return nullptr;
  // Its room is reserved, also from launches of a higher priority that came later.
  const auto noted = noted_.find(tenant);
  if (noted != noted_.end()) {
    const Entry* first = Find(noted->second);
    if (IsReserved(*first, now) && Judge(*first, pool).lack != Lack::kEver) return first;
  }
  for (const Entry& entry : *line) {
    if (Judge(entry, pool).lack != Lack::kEver) return &entry;
  }
  return nullptr;
}

std::vector<const Queue::Entry*> Queue::InOrder(const std::string& tenant, const Pool& pool, absl::Time now) const {
  std::vector<const Entry*> ordered;
  const Line* line = LineOf(tenant);
  if (line == nullptr) return ordered;
  const Entry* first = FirstOf(tenant, pool, now);
  if (first != nullptr) ordered.push_back(first);
  for (const Entry& entry : *line) {
    if (&entry != first) ordered.push_back(&entry);
  }
  return ordered;
}

std::vector<JobKey> Queue::NoteFirst(const Pool& pool, absl::Time now) {
  std::vector<JobKey> changed;
  const auto note = [&](const JobKey& key, absl::Time since) {
    Entry entry = *Find(key);
    entry.first_since = since;
    Remove(key);
    Put(std::move(entry));
    changed.push_back(key);
  };
  for (const auto& [tenant, room] : pool.tenants) {
    const Entry* first = FirstOf(tenant, pool, now);
    const auto noted = noted_.find(tenant);
    const std::optional<JobKey> before = noted == noted_.end() ? std::nullopt : std::make_optional(noted->second);
    if (first != nullptr && before == first->key) continue;
    const std::optional<JobKey> after = first == nullptr ? std::nullopt : std::make_optional(first->key);
    if (before.has_value()) note(*before, absl::InfiniteFuture());
    if (after.has_value()) note(*after, now);
  }
  return changed;
}

std::string Queue::WhyBehindOwn(const Entry& entry, const Pool& pool, absl::Time now) const {
  const Entry* first = FirstOf(entry.key.tenant, pool, now);
  if (first == nullptr || first->key == entry.key || !IsReserved(*first, now)) return "";
  return absl::StrCat("job ", first->key.job, ", which wants ", first->workers,
                      " workers, has been the first for more than ", absl::FormatDuration(kReserveAfter),
                      ", and none of tenant ", entry.key.tenant, " starts before it");
}

std::string Queue::WhyNotBorrow(const Entry& entry, const Pool& pool, absl::Time now) const {
  const bool is_reserved = IsReserved(entry, now);
  for (const auto& [tenant, room] : pool.tenants) {
    const Entry* first = tenant == entry.key.tenant ? nullptr : FirstOf(tenant, pool, now);
    if (first == nullptr || !IsReserved(*first, now)) continue;
    const Verdict verdict = Judge(*first, pool);
    if (verdict.lack != Lack::kPool) continue;
    const bool is_earlier =
        is_reserved && std::tie(entry.first_since, entry.ticket) < std::tie(first->first_since, first->ticket);
    if (verdict.borrows && is_earlier) continue;
    return absl::StrCat("it would borrow from cohort ", pool.cohort,
                        ", of which a job has been waiting for its room for ", "more than ",
                        absl::FormatDuration(kReserveAfter));
  }
  return "";
}

std::string Queue::WhyBehind(const Entry& entry, const Verdict& verdict, const Pool& pool, absl::Time now) const {
  std::string why = WhyBehindOwn(entry, pool, now);
  if (why.empty() && verdict.borrows) why = WhyNotBorrow(entry, pool, now);
  return why;
}

Queue::Rank Queue::RankOf(const Entry& entry, const Pool& pool, absl::Time now) {
  const TenantRoom& room = pool.tenants.at(entry.key.tenant);
  const double jobs = static_cast<double>(room.jobs) / static_cast<double>(std::max<uint64_t>(1, pool.max_jobs));
  const double workers =
      static_cast<double>(room.workers) / static_cast<double>(std::max<uint64_t>(1, pool.max_workers));
  Rank rank;
  rank.borrows = room.workers + entry.workers > room.max_workers;
  rank.reserved_since = IsReserved(entry, now) ? entry.first_since : absl::InfiniteFuture();
  rank.share = std::max(jobs, workers) / std::max<uint32_t>(1, room.weight);
  rank.came = entry.came;
  rank.ticket = entry.ticket;
  return rank;
}

std::optional<JobKey> Queue::Next(const Pool& pool, absl::Time now, const std::set<std::string>& held) const {
  const Entry* best = nullptr;
  for (const auto& [tenant, room] : pool.tenants) {
    if (held.count(tenant) > 0) continue;
    for (const Entry* entry : InOrder(tenant, pool, now)) {
      const Verdict verdict = Judge(*entry, pool);
      if (verdict.lack != Lack::kNothing || !WhyBehind(*entry, verdict, pool, now).empty()) continue;
      if (best == nullptr || RankOf(*entry, pool, now) < RankOf(*best, pool, now)) best = entry;
      break;
    }
  }
  if (best == nullptr) return std::nullopt;
  return best->key;
}

absl::Status Queue::CheckNew(const Entry& entry, const Pool& pool, absl::Time now) const {
  const Verdict verdict = Judge(entry, pool);
  std::string why;
  if (verdict.lack != Lack::kNothing) {
    why = Explain(entry, verdict, pool);
  } else {
    why = WhyBehind(entry, verdict, pool, now);
    if (why.empty() && !empty() && Next(pool, now).has_value()) why = "launches that wait already start before it";
  }
  if (why.empty()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("job ", entry.key.job, ": ", why));
}

absl::Status Queue::CheckQuota(const Entry& entry, const Pool& pool) {
  const Verdict verdict = Judge(entry, pool);
  if (verdict.lack == Lack::kNothing) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("job ", entry.key.job, ": ", Explain(entry, verdict, pool)));
}

absl::Status Queue::CheckEver(const Entry& entry, const Pool& pool) {
  const Verdict verdict = Judge(entry, pool);
  if (verdict.lack != Lack::kEver) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("job ", entry.key.job, ": ", Explain(entry, verdict, pool)));
}

std::string Queue::Explain(const Entry& entry, const Verdict& verdict, const Pool& pool) {
  const std::string& tenant = entry.key.tenant;
  const TenantRoom& room = pool.tenants.at(tenant);
  const std::string borrowed = room.borrow == 0 ? "" : absl::StrCat(", with up to ", room.borrow, " borrowed ones");
  switch (verdict.lack) {
    case Lack::kNothing:
      return "it is about to start";
    case Lack::kEver:
      return absl::StrCat("it wants ", entry.workers, " workers, and tenant ", tenant, " may have ",
                          MostWorkers(room, pool), " at most: its quota is ", room.max_workers, borrowed);
    case Lack::kJobs:
      return absl::StrCat("tenant ", tenant, " runs ", room.jobs, " jobs, its quota is ", room.max_jobs);
    case Lack::kWorkers:
      return absl::StrCat("it wants ", entry.workers, " workers, tenant ", tenant, " has ", room.workers,
                          " in its other jobs, and its quota is ", room.max_workers, borrowed);
    case Lack::kPool:
      return absl::StrCat("it wants ", entry.workers, " workers, and ", pool.workers, " of the ", pool.max_workers,
                          " of cohort ", pool.cohort, " are in use");
  }
  return "";
}

std::vector<Queue::Position> Queue::Positions(const Pool& pool, absl::Time now) const {
  struct Waiting {
    std::vector<const Entry*> entries;
    size_t next = 0;
  };
  std::vector<Waiting> lines;
  uint32_t length = 0;
  for (const auto& [tenant, room] : pool.tenants) {
    lines.push_back({InOrder(tenant, pool, now), 0});
    length += static_cast<uint32_t>(lines.back().entries.size());
  }
  // As if each of them had started in its turn.
  Pool later = pool;
  std::vector<Position> places;
  while (places.size() < length) {
    Waiting* best = nullptr;
    for (Waiting& line : lines) {
      if (line.next == line.entries.size()) continue;
      if (best == nullptr ||
          RankOf(*line.entries[line.next], later, now) < RankOf(*best->entries[best->next], later, now))
        best = &line;
    }
    const Entry& entry = *best->entries[best->next++];
    later.Use(entry.key.tenant, entry.workers);
    const Verdict verdict = Judge(entry, pool);
    std::string reason = verdict.lack == Lack::kNothing ? WhyBehind(entry, verdict, pool, now) : "";
    if (reason.empty()) reason = Explain(entry, verdict, pool);
    places.push_back({entry.key, static_cast<uint32_t>(places.size() + 1), length, std::move(reason)});
  }
  return places;
}

}  // namespace farandole
