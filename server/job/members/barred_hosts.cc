#include "server/job/members/barred_hosts.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// Beside its own: what a launcher calls it, and another launcher.
constexpr int kMostNames = 2;

// A name as it can be kept.
std::string Kept(const std::string& name) { return Plain(name, 255); }

absl::Time EndOf(const v1::HostRecord& host) { return absl::FromUnixMillis(host.barred_until_unix_ms()); }

void SetEnd(absl::Time end, v1::HostRecord* host) { host->set_barred_until_unix_ms(absl::ToUnixMillis(end)); }

}  // namespace

void BarredHosts::Configure(const v1::Elastic& elastic) {
  least_ = absl::Milliseconds(elastic.least_cooldown_ms());
  most_ = std::max(least_, absl::Milliseconds(elastic.most_cooldown_ms()));
}

void BarredHosts::Load(const v1::JobRecord& record, absl::Time now, absl::Duration wall_ahead) {
  Configure(record.elastic());
  for (const v1::HostRecord& host : record.hosts()) {
    hosts_[host.hostname()] = host;
    SetEnd(std::min(EndOf(host) - wall_ahead, now + most_), &hosts_[host.hostname()]);
  }
}

void BarredHosts::Save(absl::Duration wall_ahead, v1::JobRecord* record) const {
  record->clear_hosts();
  for (const auto& [name, host] : hosts_) {
    *record->add_hosts() = host;
    SetEnd(EndOf(host) + wall_ahead, record->mutable_hosts(record->hosts_size() - 1));
  }
}

void BarredHosts::Name(const std::string& hostname, const std::string& launcher_name) {
  const auto host = hosts_.find(Kept(hostname));
  if (host == hosts_.end() || hostname == launcher_name || launcher_name.empty()) return;
  auto& names = *host->second.mutable_launcher_names();
  if (absl::c_linear_search(names, Kept(launcher_name))) return;
  if (names.size() == kMostNames) names.DeleteSubrange(0, 1);
  *names.Add() = Kept(launcher_name);
}

std::string BarredHosts::Fail(const std::string& name, absl::Time now) {
  if (least_ == absl::ZeroDuration() || name.empty()) return "";
  if (BarredFor(name, now) > absl::ZeroDuration()) return "";
  Forget(now);
  const v1::HostRecord* known = Find(name);
  const std::string hostname = known == nullptr ? Kept(name) : known->hostname();
  if (known == nullptr && hosts_.size() == kMostHosts) {
    hosts_.erase(
        absl::c_min_element(hosts_, [](const auto& a, const auto& b) { return EndOf(a.second) < EndOf(b.second); }));
  }
  v1::HostRecord& host = hosts_[hostname];
  host.set_hostname(hostname);
  host.set_failures(host.failures() + 1);
  absl::Duration cooldown = least_;
  for (uint32_t failure = 1; failure < host.failures() && cooldown < most_; ++failure) cooldown *= 2;
  SetEnd(now + std::min(cooldown, most_), &host);
  return Sentence(hostname, now);
}

absl::Duration BarredHosts::BarredFor(const std::string& name, absl::Time now) const {
  const v1::HostRecord* host = Find(name);
  return host == nullptr ? absl::ZeroDuration() : std::max(absl::ZeroDuration(), EndOf(*host) - now);
}

std::string BarredHosts::Sentence(const std::string& name, absl::Time now) const {
  const absl::Duration barred = BarredFor(name, now);
  if (barred == absl::ZeroDuration()) return "";
  const v1::HostRecord& host = *Find(name);
  return absl::StrCat("host ", Plain(host.hostname(), 64), " is barred for ", ShowDuration(barred), " after ",
                      Count(host.failures(), "failure"));
}

google::protobuf::RepeatedPtrField<v1::BarredHost> BarredHosts::List(absl::Time now) const {
  google::protobuf::RepeatedPtrField<v1::BarredHost> barred;
  for (const auto& [name, host] : hosts_) {
    if (EndOf(host) <= now) continue;
    v1::BarredHost* shown = barred.Add();
    shown->set_hostname(name);
    shown->set_failures(host.failures());
    shown->set_barred_ms(absl::ToInt64Milliseconds(EndOf(host) - now));
  }
  return barred;
}

const v1::HostRecord* BarredHosts::Find(const std::string& name) const {
  if (hosts_.empty()) return nullptr;
  const std::string kept = Kept(name);
  if (const auto host = hosts_.find(kept); host != hosts_.end()) return &host->second;
  for (const auto& [hostname, host] : hosts_) {
    if (absl::c_linear_search(host.launcher_names(), kept)) return &host;
  }
  return nullptr;
}

void BarredHosts::Forget(absl::Time now) {
  for (auto host = hosts_.begin(); host != hosts_.end();) {
    host = EndOf(host->second) + most_ <= now ? hosts_.erase(host) : std::next(host);
  }
}

}  // namespace farandole
