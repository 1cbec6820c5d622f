#include "deploy/launcher/policy/staffing.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace farandole::launcher {

std::vector<Staffing::Cut> Staffing::List(const std::vector<HostSlots>& hosts) {
  std::map<std::string, bool> was_listed;
  for (auto& [name, host] : hosts_) {
    was_listed[name] = host.is_listed;
    host.is_listed = false;
  }
  for (size_t i = 0; i < hosts.size(); ++i) {
    Host& host = hosts_[hosts[i].host];
    host.is_listed = true;
    host.order = i;
    host.slots = hosts[i].slots;
    if (!was_listed[hosts[i].host]) {
      host.retired = 0;
      host.is_unusable = false;
      host.is_given_up = false;
      host.failed_starts = 0;
    }
  }
  std::vector<Cut> cuts;
  for (auto& [name, host] : hosts_) {
    if (!host.is_listed && !was_listed[name]) continue;
    const int staying = StayingOn(name);
    const int surplus = host.starting + staying - (host.is_listed ? host.slots : 0);
    if (host.is_listed && surplus <= 0) continue;
    const int unstarted = std::min(host.starting, surplus);
    host.starting -= unstarted;
    Cut cut{name, host.is_listed, MarkLeaving(name, surplus - unstarted)};
    if (!host.is_listed || !cut.workers.empty()) cuts.push_back(std::move(cut));
  }
  ForgetUnlisted();
  return cuts;
}

int Staffing::StayingOn(const std::string& host) const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& entry) {
    return entry.second.host == host && !entry.second.is_leaving;
  }));
}

std::vector<int> Staffing::MarkLeaving(const std::string& host, int count) {
  std::vector<int> marked;
  for (auto entry = workers_.rbegin(); entry != workers_.rend() && count > 0; ++entry) {
    if (entry->second.host != host || entry->second.is_leaving) continue;
    entry->second.is_leaving = true;
    marked.push_back(entry->first);
    --count;
  }
  std::reverse(marked.begin(), marked.end());
  return marked;
}

int Staffing::Wanted() const {
  int wanted = has_begun_ ? limits_.most : limits_.first;
  for (const auto& [name, host] : hosts_) {
    wanted -= host.starting + host.running + (host.is_listed ? host.retired : 0);
  }
  return wanted;
}

std::vector<Staffing::Start> Staffing::TakeDue(absl::Duration now) {
  std::vector<Start> due;
  if (is_closed_ || (has_begun_ && now < rests_until_)) return due;
  for (int wanted = Wanted(); wanted > 0; --wanted) {
    std::string name;
    Host* const host = Choose(now, &name);
    if (host == nullptr) break;
    ++host->starting;
    const auto found = std::find_if(due.begin(), due.end(), [&](const Start& start) { return start.host == name; });
    if (found == due.end()) {
      due.push_back({name, 1});
    } else {
      ++found->count;
    }
  }
  if (!due.empty() && !has_begun_) {
    has_begun_ = true;
    rests_until_ = now + limits_.rest;
  }
  return due;
}

Staffing::Host* Staffing::Choose(absl::Duration now, std::string* name) {
  const auto can_be_used = [now](const Host& host) {
    return host.is_listed && !host.is_given_up && host.free() > 0 && host.usable_from() <= now;
  };
  while (!vacated_.empty()) {
    *name = vacated_.front();
    vacated_.pop_front();
    const auto own = hosts_.find(*name);
    if (own != hosts_.end() && can_be_used(own->second)) return &own->second;
  }
  // Hosts that could not be used last time come last.
  const auto key = [](const Host& host) { return std::make_pair(host.is_unusable, host.order); };
  Host* chosen = nullptr;
  for (auto& [candidate, host] : hosts_) {
    if (!can_be_used(host) || (chosen != nullptr && key(*chosen) < key(host))) continue;
    chosen = &host;
    *name = candidate;
  }
  return chosen;
}

void Staffing::Started(const std::string& host, int worker, absl::Duration now) {
  Host& where = hosts_[host];
  --where.starting;
  ++where.running;
  where.is_unusable = false;
  workers_[worker] = {host, now};
}

void Staffing::Unusable(const std::string& host, absl::Duration now) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) return;
  found->second.starting = 0;
  found->second.is_unusable = true;
  ++found->second.hasty;
  Rest(&found->second, now);
  ForgetUnlisted();
}

bool Staffing::Ended(int worker, End end, absl::Duration now) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return false;
  const Worker ended = found->second;
  workers_.erase(found);
  Host& host = hosts_[ended.host];
  --host.running;
  rests_until_ = std::max(rests_until_, now + limits_.rest);
  bool is_given_up = false;
  const bool is_early = now - ended.since < limits_.early;
  if (!is_early) host.failed_starts = 0;
  if (end == kInOrder && !ended.is_leaving) {
    ++host.retired;
  } else if (end != kInOrder && !ended.is_leaving) {
    host.hasty = now - ended.since < limits_.settled ? host.hasty + 1 : 0;
    Rest(&host, now);
    if (!host.is_unusable) vacated_.push_back(ended.host);
    is_given_up = end == kFailed && is_early && NoteFailedStart(&host, ended.since, now);
  }
  ForgetUnlisted();
  return is_given_up;
}

bool Staffing::NoteFailedStart(Host* host, absl::Duration since, absl::Duration now) const {
  // A worker that was there already failed with it.
  if (since < host->last_failed_start) return false;
  host->last_failed_start = now;
  const bool was_given_up = host->is_given_up;
  host->is_given_up |= ++host->failed_starts >= limits_.most_failed_starts;
  return host->is_given_up && !was_given_up;
}

void Staffing::Rest(Host* host, absl::Duration now) {
  absl::Duration rest = limits_.rest;
  for (int i = 1; i < host->hasty && rest < limits_.longest_rest; ++i) rest *= 2;
  host->rests_until = std::max(host->rests_until, now + std::min(rest, limits_.longest_rest));
}

void Staffing::Bar(const std::string& host, absl::Duration until) {
  const auto found = hosts_.find(host);
  if (found != hosts_.end()) found->second.barred_until = std::max(found->second.barred_until, until);
}

void Staffing::Close() {
  is_closed_ = true;
  for (auto& [name, host] : hosts_) host.starting = 0;
}

absl::Duration Staffing::deadline(absl::Duration now) const {
  if (is_closed_ || Wanted() <= 0) return absl::InfiniteDuration();
  absl::Duration earliest = absl::InfiniteDuration();
  for (const auto& [name, host] : hosts_) {
    if (!host.is_listed || host.is_given_up || host.free() <= 0) continue;
    earliest = std::min(earliest, std::max(host.usable_from(), has_begun_ ? rests_until_ : now));
  }
  return earliest;
}

int Staffing::starting_on(const std::string& host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? 0 : found->second.starting;
}

int Staffing::starting() const {
  int sum = 0;
  for (const auto& [name, host] : hosts_) sum += host.starting;
  return sum;
}

int Staffing::expected(absl::Duration now) const {
  int places = 0;
  for (const auto& [name, host] : hosts_) {
    const bool can_be_used = host.is_listed && !host.is_given_up && !host.is_unusable && host.barred_until <= now;
    if (can_be_used) places += std::max(0, host.free());
  }
  return starting() + (is_closed_ ? 0 : std::min(std::max(0, Wanted()), places));
}

bool Staffing::is_listed(const std::string& host) const {
  const auto found = hosts_.find(host);
  return found != hosts_.end() && found->second.is_listed;
}

bool Staffing::AreAllListed(bool Host::*property) const {
  bool is_any = false;
  for (const auto& [name, host] : hosts_) {
    if (!host.is_listed) continue;
    if (!(host.*property)) return false;
    is_any = true;
  }
  return is_any;
}

void Staffing::ForgetUnlisted() {
  for (auto host = hosts_.begin(); host != hosts_.end();) {
    const bool is_needed = host->second.is_listed || host->second.running > 0;
    host = is_needed ? std::next(host) : hosts_.erase(host);
  }
}

}  // namespace farandole::launcher
