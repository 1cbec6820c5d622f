#include "tests/simulation/elastic_epoch.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/elastic_process.h"

namespace farandole {
namespace {

constexpr int64_t kBeatNs = 500 * kMillisecond;
// As of sockets between hosts.
constexpr int64_t kConnectionLimitNs = 10 * kSecond;

bool IsThere(const ElasticProcess* process) {
  return process != nullptr && !process->process().is_dead() && !process->process().is_stopped();
}

}  // namespace

ElasticEpoch::ElasticEpoch(ElasticSite* site, const v1::Epoch& epoch)
    : site_(site),
      number_(epoch.number()),
      hash_(std::hash<std::string>()(epoch.SerializeAsString())),
      members_(epoch.members_size()) {
  for (int rank = 0; rank < epoch.members_size(); ++rank) {
    incarnations_.push_back(epoch.members(rank).incarnation());
    hosts_[epoch.members(rank).host_id()].push_back(rank);
    if (!rank_of_.emplace(incarnations_.back(), rank).second)
      site_->Violate(absl::StrCat("epoch ", number_, " has a member twice: rank ", rank));
  }
  Check(epoch);
  // The speakers of hosts do not wait for their peers.
  site_->time->After(kBeatNs, [this] { Beat(); });
}

void ElasticEpoch::Check(const v1::Epoch& epoch) {
  if (epoch.members_size() < site_->least || epoch.members_size() > site_->most)
    site_->Violate(absl::StrCat("epoch ", number_, " has ", epoch.members_size(), " members"));
  for (const auto& [host, ranks] : hosts_) {
    if (ranks.back() - ranks.front() + 1 != static_cast<int>(ranks.size()))
      site_->Violate(absl::StrCat("epoch ", number_, ": the ranks of ", host, " are no neighbours"));
  }
}

int ElasticEpoch::Enter(ElasticProcess* process, const std::string& incarnation, const v1::Epoch& heard) {
  if (process->number() % 64 == 0 && std::hash<std::string>()(heard.SerializeAsString()) != hash_)
    site_->Violate(absl::StrCat("epoch ", number_, " is not the same for ", process->Describe()));
  const auto found = rank_of_.find(incarnation);
  if (found == rank_of_.end() || heard.members_size() != static_cast<int>(size())) {
    site_->Violate(absl::StrCat("epoch ", number_, " was sent to ", process->Describe(), ", which is no member"));
    return -1;
  }
  if (members_[found->second] == nullptr) ++entered_;
  members_[found->second] = process;
  if (entered_ == size()) Look();
  return found->second;
}

void ElasticEpoch::Leave(int rank) {
  if (std::exchange(members_[rank], nullptr) == nullptr) return;
  ++left_;
  is_broken_ = true;
}

void ElasticEpoch::OnDeath(int rank) {
  const std::string host = members_[rank]->process().host();
  Leave(rank);
  const std::string evidence = "its process ended without leaving the job";
  if (const int neighbour = Speaker(host); neighbour >= 0) ReportLost(neighbour, rank, evidence);
  // Other hosts see connections end.
  const auto other = hosts_.begin()->first == host ? hosts_.rbegin() : std::make_reverse_iterator(++hosts_.begin());
  if (other->first == host || site_->network->IsCut(host, other->first)) return;
  if (const int leader = Speaker(other->first); leader >= 0 && hosts_.at(host).front() == rank)
    ReportLost(leader, rank, "its connection ended");
}

void ElasticEpoch::ReportLost(int reporter, int lost, const std::string& evidence) {
  ElasticProcess* const by = members_[reporter];
  by->process().After(site_->time->Between(100 * kMicrosecond, 5 * kMillisecond), [this, by, reporter, lost, evidence] {
    if (members_[reporter] != by) return;
    v1::WorkerMessage message;
    message.mutable_peer_lost()->set_epoch(number_);
    message.mutable_peer_lost()->set_rank(static_cast<uint32_t>(lost));
    message.mutable_peer_lost()->set_evidence(evidence);
    by->Say(std::move(message));
  });
}

int ElasticEpoch::Speaker(const std::string& host) const {
  for (const int rank : hosts_.at(host)) {
    if (IsThere(members_[rank]) && members_[rank]->has_stream()) return rank;
  }
  return -1;
}

bool ElasticEpoch::AreAllThere() const {
  return cut_since_ns_.empty() && std::all_of(members_.begin(), members_.end(), IsThere);
}

void ElasticEpoch::Look() {
  if (is_broken_) return;
  if (!AreAllThere()) return site_->time->After(20 * kMillisecond, [this] { Look(); });
  if (!std::exchange(has_begun_, true)) {
    Begin();
  } else {
    Step();
  }
  site_->time->After(site_->time->Between(5 * kMillisecond, 50 * kMillisecond), [this] { Look(); });
}

// The most advanced gives its state to all.
void ElasticEpoch::Begin() {
  const auto goes_on = [this](const ElasticProcess* member) { return member->previous_epoch() + 1 == number_; };
  const bool has_survivor = std::any_of(members_.begin(), members_.end(), [&goes_on](const ElasticProcess* member) {
    return goes_on(member) && !member->is_disturbed();
  });
  if (has_survivor && !goes_on(members_.front()))
    site_->Violate(absl::StrCat("rank 0 of epoch ", number_, " is a newcomer: ", members_.front()->Describe()));
  int64_t most = 0;
  for (const ElasticProcess* member : members_) most = std::max(most, member->steps());
  for (ElasticProcess* member : members_) member->TakeSteps(most);
}

// Each gives one; the sum is right only if all are in the same step.
void ElasticEpoch::Step() {
  const int64_t step = members_.front()->steps();
  size_t sum = 0;
  bool must_leave = false;
  for (const ElasticProcess* member : members_) {
    sum += member->steps() == step && member->epoch() == number_;
    must_leave = must_leave || member->is_asked();
  }
  if (sum != size())
    site_->Violate(absl::StrCat("step ", step, " of epoch ", number_, " has ", sum, " of ", size(), " ranks"));
  for (ElasticProcess* member : members_) member->TakeSteps(step + 1);
  ++steps_;
  // All agree on it in a step.
  if (!must_leave) return;
  for (ElasticProcess* member : std::vector<ElasticProcess*>(members_)) member->MoveOn();
}

void ElasticEpoch::Beat() {
  if (left_ == size()) return;
  ++beat_;
  for (const auto& [host, ranks] : hosts_) {
    const int speaker = Speaker(host);
    if (speaker < 0) continue;
    v1::WorkerMessage message;
    message.mutable_heartbeat()->set_epoch(number_);
    for (const int rank : ranks) {
      if (!IsThere(members_[rank])) continue;
      v1::Pulse* pulse = message.mutable_heartbeat()->add_pulses();
      pulse->set_rank(static_cast<uint32_t>(rank));
      pulse->set_beat(beat_);
    }
    members_[speaker]->Say(std::move(message));
  }
  GiveUpCutHosts();
  site_->time->After(kBeatNs, [this] { Beat(); });
}

void ElasticEpoch::GiveUpCutHosts() {
  const int64_t now_ns = VirtualTime::NowNs();
  for (const auto& cut : site_->network->Cuts()) {
    if (hosts_.count(cut.first) > 0 && hosts_.count(cut.second) > 0) cut_since_ns_.try_emplace(cut, now_ns);
  }
  for (auto cut = cut_since_ns_.begin(); cut != cut_since_ns_.end();) {
    const auto& [one, other] = cut->first;
    if (!site_->network->IsCut(one, other)) {
      cut = cut_since_ns_.erase(cut);
      continue;
    }
    if (now_ns - cut->second >= kConnectionLimitNs && given_up_.insert(cut->first).second) {
      for (const auto& [from, to] : {std::make_pair(one, other), std::make_pair(other, one)}) {
        if (const int speaker = Speaker(from); speaker >= 0)
          ReportLost(speaker, hosts_.at(to).front(), "its connection broke: Connection timed out");
      }
    }
    ++cut;
  }
}

}  // namespace farandole
