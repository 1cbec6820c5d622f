#include "server/registry/token_lineage.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

namespace farandole {

std::optional<int64_t> TokenLineage::Link::TakenThrough(int64_t since_unix_ms) const {
  if (made_unix_ms.has_value() && *made_unix_ms >= since_unix_ms) return since_unix_ms;
  if (first_rotated_unix_ms.has_value() && last_rotated_unix_ms >= since_unix_ms)
    return std::max(*first_rotated_unix_ms, since_unix_ms);
  return std::nullopt;
}

std::optional<int64_t> TokenLineage::Link::LatestFor(int64_t until_unix_ms) const {
  std::optional<int64_t> latest;
  if (made_unix_ms.has_value()) latest = std::min(*made_unix_ms, until_unix_ms);
  if (first_rotated_unix_ms.has_value() && *first_rotated_unix_ms <= until_unix_ms) {
    const int64_t rotated = std::min(last_rotated_unix_ms, until_unix_ms);
    latest = std::max(latest.value_or(rotated), rotated);
  }
  return latest;
}

bool TokenLineage::Walk::Next() {
  while (!ways_.empty()) {
    at_ = ways_.top();
    ways_.pop();
    if (!reached_.contains(id())) return true;
  }
  return false;
}

void TokenLineage::Walk::Follow(const std::string& other, const Link& link) {
  const std::optional<int64_t> taken = link.TakenThrough(since_unix_ms());
  if (taken.has_value() && !reached_.contains(other)) ways_.push({*taken, other});
}

void TokenLineage::Put(const v1::TokenRecord& record) {
  const std::string& id = record.about().id();
  Erase(id);
  Links links;
  if (!record.about().made_with().empty())
    links[record.about().made_with()].made_unix_ms = record.about().created_unix_ms();
  for (const v1::TokenRecord::Rotation& rotation : record.rotations()) {
    Link& link = links[rotation.token_id()];
    link.first_rotated_unix_ms = rotation.first_unix_ms();
    link.last_rotated_unix_ms = rotation.last_unix_ms();
  }
  for (const auto& [origin, link] : links) derived_[origin][id] = link;
  if (!links.empty()) origins_[id] = std::move(links);
}

void TokenLineage::Erase(const std::string& id) {
  for (const auto& [origin, link] : OriginsOf(id)) {
    const auto others = derived_.find(origin);
    others->second.erase(id);
    if (others->second.empty()) derived_.erase(others);
  }
  origins_.erase(id);
}

const TokenLineage::Links& TokenLineage::LinksIn(const Index& index, const std::string& id) {
  static const auto& none = *new Links();
  const auto found = index.find(id);
  return found == index.end() ? none : found->second;
}

TokenLineage::Times TokenLineage::ReachOf(const std::string& id, int64_t since_unix_ms, const Prune& prune) const {
  Walk walk(id, since_unix_ms);
  while (walk.Next()) {
    if (prune && prune(walk.id(), walk.since_unix_ms())) continue;
    walk.Enter();
    for (const auto& [other, link] : DerivedFrom(walk.id())) walk.Follow(other, link);
  }
  return walk.reached();
}

std::set<std::string> TokenLineage::Descendants(const std::vector<std::string>& ids) const {
  std::set<std::string> all(ids.begin(), ids.end());
  std::vector<std::string> next = ids;
  while (!next.empty()) {
    const std::string id = std::move(next.back());
    next.pop_back();
    for (const auto& [other, link] : DerivedFrom(id)) {
      if (all.insert(other).second) next.push_back(other);
    }
  }
  return all;
}

std::set<std::string> TokenLineage::ThoseThatReach(const std::vector<std::string>& ids,
                                                   const std::function<bool(const std::string& id)>& is_good) const {
  const std::set<std::string> within = Descendants(ids);
  // From the good ones back to their origins. Until when a holder of the token may have come to it, and the token.
  using Way = std::pair<int64_t, std::string>;
  std::priority_queue<Way> ways;
  for (const std::string& id : within) {
    if (is_good(id)) ways.push({std::numeric_limits<int64_t>::max(), id});
  }
  // The first way from a token is that of the latest moment, which serves all earlier ones.
  std::set<std::string> reaching;
  while (!ways.empty()) {
    const auto [until, id] = ways.top();
    ways.pop();
    if (!reaching.insert(id).second) continue;
    for (const auto& [origin, link] : OriginsOf(id)) {
      const std::optional<int64_t> latest = link.LatestFor(until);
      if (latest.has_value() && within.count(origin) > 0 && reaching.count(origin) == 0) ways.push({*latest, origin});
    }
  }
  std::set<std::string> those;
  for (const std::string& id : ids) {
    if (reaching.count(id) > 0) those.insert(id);
  }
  return those;
}

}  // namespace farandole
