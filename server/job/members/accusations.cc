#include "server/job/members/accusations.h"

#include <algorithm>
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

}  // namespace

void Accusations::Add(uint32_t accuser, uint32_t accused, const std::string& evidence, absl::Time now) {
  const auto is_known = [&](const Accusation& said) { return said.accuser == accuser && said.accused == accused; };
  if (absl::c_any_of(said_, is_known)) return;
  if (said_.empty()) deadline_ = now + kWindow;
  said_.push_back({accuser, accused, evidence});
}

std::string Accusations::Against(uint32_t rank) const {
  for (const Accusation& said : said_) {
    if (said.accused == rank) return SeenBy(said.evidence, said.accuser);
  }
  return "";
}

std::vector<Roster::Loss> Accusations::Judge(const Roster& roster, BrokenLinks* links, absl::Time now) {
  deadline_ = absl::InfiniteFuture();
  std::vector<Accusation> open = std::exchange(said_, {});
  const auto drop = [&open](const auto& is_settled) {
    open.erase(std::remove_if(open.begin(), open.end(), is_settled), open.end());
  };
  drop([&roster](const Accusation& said) { return roster.seat(said.accuser).left || roster.seat(said.accused).left; });
  absl::btree_map<std::string, std::vector<uint32_t>> members;
  for (const uint32_t rank : roster.Staying()) members[HostOf(roster, rank)].push_back(rank);
  for (const Accusation& said : open) links->Add(HostOf(roster, said.accuser), HostOf(roster, said.accused), now);
  absl::btree_map<std::string, absl::btree_set<std::string>> broken = links->ByHost();
  std::vector<Roster::Loss> losses;
  while (!open.empty()) {
    absl::btree_set<std::string> concerned;
    for (const Accusation& said : open) {
      concerned.insert({HostOf(roster, said.accuser), HostOf(roster, said.accused)});
    }
    const auto weight = [&](const std::string& host) {
      const std::vector<uint32_t>& ranks = members.at(host);
      return std::make_tuple(broken[host].size(), -static_cast<int64_t>(ranks.size()), ranks.front());
    };
    const std::string host = *absl::c_max_element(
        concerned, [&weight](const auto& one, const auto& other) { return weight(one) < weight(other); });
    const std::string claim = Claim(host, open, roster);
    for (const uint32_t rank : members.at(host)) losses.push_back({rank, claim});
    for (auto& [other, ends] : broken) ends.erase(host);
    drop([&](const Accusation& said) {
      return HostOf(roster, said.accuser) == host || HostOf(roster, said.accused) == host;
    });
  }
  return losses;
}

std::string Accusations::Claim(const std::string& host, const std::vector<Accusation>& said,
                               const Roster& roster) const {
  const Accusation* own = nullptr;
  for (const Accusation& each : said) {
    if (HostOf(roster, each.accused) == host) return SeenBy(each.evidence, each.accuser);
    if (own == nullptr && HostOf(roster, each.accuser) == host) own = &each;
  }
  return own == nullptr ? "" : absl::StrCat("it is at odds with ", roster.Describe(own->accused), ": ", own->evidence);
}

}  // namespace farandole
