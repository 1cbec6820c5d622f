#include "server/queue/ended_launches.h"

#include <tuple>
#include <utility>

namespace farandole {

bool EndedLaunches::Name::operator<(const Name& other) const {
  return std::tie(key, nonce, token_id) < std::tie(other.key, other.nonce, other.token_id);
}

void EndedLaunches::Add(const JobKey& key, const v1::Launch& launch, const absl::Status& status, absl::Time now) {
  Name name{key, launch.nonce(), launch.token_id()};
  if (const auto before = numbers_.find(name); before != numbers_.end()) Erase(before->second);
  const uint64_t number = ++last_;
  numbers_[name] = number;
  std::set<uint64_t>& of_tenant = of_tenant_[key.tenant];
  of_tenant.insert(number);
  ends_[number] = End{std::move(name), status, now};
  if (of_tenant.size() > most_of_tenant_) Erase(*of_tenant.begin());
  if (ends_.size() > most_) Erase(ends_.begin()->first);
}

const absl::Status* EndedLaunches::Find(const JobKey& key, const v1::Launch& launch) const {
  const auto found = numbers_.find(Name{key, launch.nonce(), launch.token_id()});
  return found == numbers_.end() ? nullptr : &ends_.at(found->second).status;
}

void EndedLaunches::Forget(absl::Time now) {
  while (!ends_.empty() && ends_.begin()->second.at + kEndKept < now) Erase(ends_.begin()->first);
}

void EndedLaunches::Erase(uint64_t number) {
  const auto end = ends_.find(number);
  const auto of_tenant = of_tenant_.find(end->second.name.key.tenant);
  of_tenant->second.erase(number);
  if (of_tenant->second.empty()) of_tenant_.erase(of_tenant);
  numbers_.erase(end->second.name);
  ends_.erase(end);
}

}  // namespace farandole
