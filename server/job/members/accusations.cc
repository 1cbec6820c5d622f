#include "server/job/members/accusations.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

const std::string& HostOf(const Roster& roster, uint32_t rank) { return roster.seat(rank).member.host_id(); }

// A host, by its number among those of an epoch and of broken links. A worker may claim any host to be its own, so
// there are as many as ranks.
struct Host {
  // Members that have not left, ascending.
  std::vector<uint32_t> ranks;
  // The hosts at the other ends of its broken links, and how many of those remain.
  std::vector<uint32_t> links;
  size_t remaining_links = 0;
  // The accusations of which it has one side, in their order, and how many of those are open.
  std::vector<size_t> said;
  size_t open_said = 0;
};

struct Hosts {
  Hosts(const Roster& roster, const BrokenLinks& links) : host_of(roster.size()) {
    absl::flat_hash_map<std::string, uint32_t> numbers;
    const auto number_of = [&](const std::string& id) {
      const auto [number, is_new] = numbers.try_emplace(id, static_cast<uint32_t>(hosts.size()));
      if (is_new) hosts.emplace_back();
      return number->second;
    };
    for (const uint32_t rank : roster.Staying()) {
      host_of[rank] = number_of(HostOf(roster, rank));
      hosts[host_of[rank]].ranks.push_back(rank);
    }
    for (const auto& [id, ends] : links.ByHost()) {
      const uint32_t host = number_of(id);
      for (const std::string& end : ends) {
        const uint32_t other = number_of(end);
        hosts[host].links.push_back(other);
        ++hosts[host].remaining_links;
      }
    }
  }

  // The greatest is to go first.
  std::tuple<size_t, int64_t, uint32_t, uint32_t> WeightOf(uint32_t host) const {
    const Host& one = hosts[host];
    return {one.remaining_links, -static_cast<int64_t>(one.ranks.size()), one.ranks.front(), host};
  }

  std::vector<Host> hosts;
  // By rank, of those that have not left.
  std::vector<uint32_t> host_of;
};

}  // namespace

void Accusations::Add(uint32_t accuser, uint32_t accused, const std::string& evidence, absl::Time now) {
  if (said_.size() >= kMost || !known_.insert({accuser, accused}).second) return;
  if (said_.empty()) deadline_ = now + kWindow;
  first_against_.try_emplace(accused, said_.size());
  said_.push_back({accuser, accused, evidence});
  // With its place in the two tables.
  charge_.Resize(charge_.bytes() + static_cast<int64_t>(sizeof(Accusation) + 64 + evidence.size()));
}

std::string Accusations::Against(uint32_t rank) const {
  const auto first = first_against_.find(rank);
  return first == first_against_.end() ? "" : SeenBy(said_[first->second].evidence, said_[first->second].accuser);
}

std::vector<Roster::Loss> Accusations::Judge(const Roster& roster, BrokenLinks* links, absl::Time now) {
  deadline_ = absl::InfiniteFuture();
  std::vector<Accusation> said = std::exchange(said_, {});
  known_.clear();
  first_against_.clear();
  charge_.Release();
  const auto is_settled = [&roster](const Accusation& one) {
    return roster.seat(one.accuser).left || roster.seat(one.accused).left;
  };
  said.erase(std::remove_if(said.begin(), said.end(), is_settled), said.end());
  for (const Accusation& one : said) links->Add(HostOf(roster, one.accuser), HostOf(roster, one.accused), now);
  Hosts all(roster, *links);
  for (size_t i = 0; i < said.size(); ++i) {
    for (const uint32_t rank : {said[i].accuser, said[i].accused}) {
      all.hosts[all.host_of[rank]].said.push_back(i);
      ++all.hosts[all.host_of[rank]].open_said;
    }
  }
  // Of hosts of which accusations are open.
  std::set<std::tuple<size_t, int64_t, uint32_t, uint32_t>> weights;
  for (uint32_t host = 0; host < all.hosts.size(); ++host) {
    if (all.hosts[host].open_said > 0) weights.insert(all.WeightOf(host));
  }
  std::vector<bool> is_open(said.size(), true);
  std::vector<Roster::Loss> losses;
  while (!weights.empty()) {
    const uint32_t host = std::get<3>(*weights.rbegin());
    const std::string claim =
        Claim(roster, said, is_open, all.hosts[host].said, HostOf(roster, all.hosts[host].ranks[0]));
    for (const uint32_t rank : all.hosts[host].ranks) losses.push_back({rank, claim});
    for (const uint32_t other : all.hosts[host].links) {
      const bool is_weighed = all.hosts[other].open_said > 0 && weights.erase(all.WeightOf(other)) > 0;
      --all.hosts[other].remaining_links;
      if (is_weighed) weights.insert(all.WeightOf(other));
    }
    for (const size_t i : all.hosts[host].said) {
      if (!is_open[i]) continue;
      is_open[i] = false;
      for (const uint32_t rank : {said[i].accuser, said[i].accused}) {
        const uint32_t side = all.host_of[rank];
        if (--all.hosts[side].open_said == 0) weights.erase(all.WeightOf(side));
      }
    }
  }
  return losses;
}

std::string Accusations::Claim(const Roster& roster, const std::vector<Accusation>& said,
                               const std::vector<bool>& is_open, const std::vector<size_t>& of_host,
                               const std::string& host) {
  const Accusation* own = nullptr;
  for (const size_t i : of_host) {
    if (!is_open[i]) continue;
    if (HostOf(roster, said[i].accused) == host) return SeenBy(said[i].evidence, said[i].accuser);
    if (own == nullptr) own = &said[i];
  }
  return own == nullptr ? "" : absl::StrCat("it is at odds with ", roster.Describe(own->accused), ": ", own->evidence);
}

}  // namespace farandole
