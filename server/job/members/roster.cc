#include "server/job/members/roster.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// More than any limit for silence.
constexpr uint64_t kMostAgeMs = uint64_t{1} << 40;

}  // namespace

Roster::Roster(const v1::Epoch& epoch, absl::Duration silence_limit)
    : silence_limit_(silence_limit),
      seats_(epoch.members_size()),
      staying_(epoch.members_size()),
      remaining_(epoch.members_size()),
      is_watched_(epoch.members_size()) {
  for (int rank = 0; rank < epoch.members_size(); ++rank) {
    seats_[rank].member = epoch.members(rank);
    rank_of_[epoch.members(rank).incarnation()] = rank;
  }
}

std::optional<uint32_t> Roster::RankOf(const std::string& incarnation) const {
  const auto it = rank_of_.find(incarnation);
  if (it == rank_of_.end()) return std::nullopt;
  return it->second;
}

std::optional<uint32_t> Roster::RankLaunched(uint32_t launch_index) const {
  for (uint32_t rank = 0; rank < seats_.size(); ++rank) {
    if (seats_[rank].member.launch_index() == launch_index) return rank;
  }
  return std::nullopt;
}

std::string Roster::Describe(uint32_t rank) const { return DescribeRank(rank, seats_[rank].member); }

StreamId Roster::Attach(uint32_t rank, StreamId stream, absl::Time now) {
  Seat& seat = seats_[rank];
  Watch(rank, now);
  seat.stream_end.clear();
  return std::exchange(seat.stream, stream);
}

void Roster::Detach(uint32_t rank, const std::string& evidence, absl::Time now) {
  Seat& seat = seats_[rank];
  seat.stream = 0;
  if (seat.left) return;
  seat.stream_end = evidence.empty() ? "no reason given" : Plain(evidence);
  Hear(rank, now);
}

void Roster::Watch(uint32_t rank, absl::Time when) {
  if (seats_[rank].left && !seats_[rank].returns) return;
  if (!is_watched_[rank]) watched_.insert({seats_[rank].heard, rank});
  is_watched_[rank] = true;
  Hear(rank, when);
}

void Roster::Hear(uint32_t rank, absl::Time when) {
  Seat& seat = seats_[rank];
  if (!is_watched_[rank] || when <= seat.heard) return;
  auto entry = watched_.extract({seat.heard, rank});
  seat.heard = entry.value().first = when;
  watched_.insert(std::move(entry));
}

void Roster::HearHost(uint32_t rank, absl::Time when) {
  const std::string& host = seats_[rank].member.host_id();
  uint32_t first = rank;
  // Workers of one host are neighbours.
  while (first > 0 && seats_[first - 1].member.host_id() == host) --first;
  for (uint32_t other = first; other < size() && seats_[other].member.host_id() == host; ++other) Hear(other, when);
}

void Roster::Feel(const v1::Pulse& pulse, absl::Time now) {
  Seat& seat = seats_[pulse.rank()];
  if (seat.left || (seat.beat.has_value() && pulse.beat() <= *seat.beat)) return;
  // The reporting rank sees the member's process, also if the member has not come back to a restarted coordinator.
  const bool is_hearsay = !seat.beat.has_value() && seat.stream == 0;
  seat.beat = pulse.beat();
  seat.batches = pulse.batches();
  const absl::Time when = now - absl::Milliseconds(static_cast<int64_t>(std::min(pulse.age_ms(), kMostAgeMs)));
  // It may be between two epochs, with no reason to beat in this one.
  is_hearsay ? Watch(pulse.rank(), now) : Hear(pulse.rank(), when);
  if (pulse.rank() != 0) return;
  samples_.emplace_back(now, pulse.batches());
  if (samples_.size() > kMostSamples) samples_.pop_front();
}

void Roster::Leave(uint32_t rank, bool returns) {
  Seat& seat = seats_[rank];
  if (seat.left) return;
  seat.left = true;
  seat.returns = returns;
  seat.stream = 0;
  CountGpu(seat, -1);
  seat.gpu.reset();
  --staying_;
  if (!returns && !seat.drained) {
    --remaining_;
    ++finished_;
  }
  Unwatch(rank);
}

void Roster::Drain(uint32_t rank) {
  Seat& seat = seats_[rank];
  if (seat.drained || (seat.left && !seat.returns)) return;
  seat.drained = true;
  ++drained_;
  --remaining_;
}

void Roster::Unwatch(uint32_t rank) {
  if (!is_watched_[rank]) return;
  watched_.erase({seats_[rank].heard, rank});
  is_watched_[rank] = false;
}

std::vector<uint32_t> Roster::Staying() const {
  std::vector<uint32_t> ranks;
  ranks.reserve(staying_);
  for (uint32_t rank = 0; rank < seats_.size(); ++rank) {
    if (!seats_[rank].left) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<Roster::Loss> Roster::Silent(absl::Time now) const {
  std::vector<Loss> silent;
  if (now < judged_from_) return silent;
  for (const auto& [heard, rank] : watched_) {
    if (heard + silence_limit_ > now) break;
    silent.push_back({rank, SilenceClaim(seats_[rank], now)});
  }
  return silent;
}

std::string Roster::DescribeAll(const std::vector<uint32_t>& ranks, size_t count) const {
  std::vector<std::string> names;
  for (const uint32_t rank : ranks) {
    if (names.size() == kMostNamed) break;
    names.push_back(Describe(rank));
  }
  const size_t more = count - names.size();
  return absl::StrCat(absl::StrJoin(names, ", "), more == 0 ? "" : absl::StrCat(" and ", Count(more, "more rank")));
}

std::string Roster::DescribeLosses(std::vector<Loss> losses) const {
  absl::c_sort(losses, [](const Loss& a, const Loss& b) { return a.rank < b.rank; });
  constexpr size_t kMostClaims = 8;
  // By the first rank that it is true of, in the order of ranks; each rank may have another one.
  std::vector<std::pair<std::string, std::vector<uint32_t>>> ranks_by_claim;
  for (const Loss& loss : losses) {
    const auto same = absl::c_find_if(ranks_by_claim, [&loss](const auto& entry) { return entry.first == loss.claim; });
    if (same == ranks_by_claim.end()) {
      if (ranks_by_claim.size() == kMostClaims) continue;
      ranks_by_claim.push_back({loss.claim, {loss.rank}});
    } else {
      same->second.push_back(loss.rank);
    }
  }
  std::vector<std::string> sentences;
  for (const auto& [claim, ranks] : ranks_by_claim) {
    sentences.push_back(
        absl::StrCat(DescribeAll(ranks, ranks.size()), ranks.size() == 1 ? " was lost: " : " were each lost: ", claim));
  }
  return absl::StrJoin(sentences, "; ");
}

std::string Roster::SilenceClaim(const Seat& seat, absl::Time now) const {
  if (!seat.stream_end.empty()) {
    return absl::StrCat("its stream ended (", seat.stream_end, ") and it did not come back within ",
                        ShowDuration(silence_limit_));
  }
  return absl::StrCat("nothing was heard of it for ", ShowDuration(now - seat.heard), "; the limit is ",
                      ShowDuration(silence_limit_));
}

absl::Time Roster::Deadline() const {
  return watched_.empty() ? absl::InfiniteFuture() : std::max(judged_from_, watched_.begin()->first + silence_limit_);
}

double Roster::BatchesPerSecond() const {
  if (samples_.size() < 2) return 0;
  const double seconds = absl::ToDoubleSeconds(samples_.back().first - samples_.front().first);
  const uint64_t first = samples_.front().second, last = samples_.back().second;
  return seconds > 0 && last > first ? static_cast<double>(last - first) / seconds : 0;
}

void Roster::CountGpu(const Seat& seat, int sign) {
  if (!seat.gpu.has_value()) return;
  gpu_sums_.gpus += sign;
  gpu_sums_.telling += seat.gpu->has_busy_percent() ? sign : 0;
  gpu_sums_.busy_percent += sign * static_cast<int64_t>(seat.gpu->busy_percent());
  gpu_sums_.memory_used += sign * static_cast<int64_t>(seat.gpu->memory_used_bytes());
  gpu_sums_.memory_total += sign * static_cast<int64_t>(seat.gpu->memory_total_bytes());
}

void Roster::SetGpu(uint32_t rank, const v1::GpuStatus& status) {
  Seat& seat = seats_[rank];
  if (seat.left) return;
  CountGpu(seat, -1);
  seat.gpu = status.has_gpu() ? std::optional<v1::Gpu>(status.gpu()) : std::nullopt;
  CountGpu(seat, 1);
}

v1::GpuUsage Roster::GpuUsage() const {
  v1::GpuUsage usage;
  usage.set_gpus(static_cast<uint32_t>(gpu_sums_.gpus));
  usage.set_telling_gpus(static_cast<uint32_t>(gpu_sums_.telling));
  if (gpu_sums_.telling > 0)
    usage.set_busy_percent(static_cast<double>(gpu_sums_.busy_percent) / static_cast<double>(gpu_sums_.telling));
  usage.set_memory_used_bytes(static_cast<uint64_t>(gpu_sums_.memory_used));
  usage.set_memory_total_bytes(static_cast<uint64_t>(gpu_sums_.memory_total));
  return usage;
}

}  // namespace farandole
