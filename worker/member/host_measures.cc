#include "worker/member/host_measures.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/measure/rank_meter.h"

namespace farandole {
namespace {

// As the coordinator bounds them (server/job/rules/bounds.cc).
constexpr size_t kMostLate = 32;
constexpr size_t kMostSections = 32;
constexpr size_t kMostPeerHosts = 32;

template <typename Number>
Number Get(const std::atomic<Number>& word) {
  return word.load(std::memory_order_relaxed);
}

// A wait that goes on counts, but the rank adds nothing for it if it ends within a few looks, however long the rank was
// stopped meanwhile. Where threads of a rank wait at a time, the record shows one of them: others' waits vanish from
// the sum until they end, those of Python's callers for 100 ms at most.
constexpr int64_t kMostBehindNs = 200'000'000;

// Sums of words that change while they are read may go back a little; what is missed now comes the next time.
uint64_t Advance(int64_t now, int64_t* known) {
  const int64_t ns = std::max<int64_t>(0, now - *known);
  const int64_t us = ns / 1000;
  *known += us * 1000;
  return static_cast<uint64_t>(us);
}

uint64_t AgeUs(int64_t since_ns, int64_t now_ns) {
  return since_ns == 0 ? 0 : static_cast<uint64_t>(std::max<int64_t>(0, now_ns - since_ns)) / 1000;
}

// For how long the main thread was ready to run and had no CPU: the second number of its schedstat. 0 where the kernel
// does not say.
int64_t QueuedNs() {
  int64_t ran_ns = 0;
  int64_t queued_ns = 0;
  std::ifstream file("/proc/self/schedstat");
  return file >> ran_ns >> queued_ns ? queued_ns : 0;
}

uint64_t Difference(uint64_t now, uint64_t before) { return now > before ? now - before : 0; }

}  // namespace

void HostMeasures::Start(int first, int end, int64_t now_ns, ReadSending sending, SectionClock* sections) {
  sections_ = sections;
  sending_ = std::move(sending);
  first_ = first;
  ranks_.assign(end - first, Rank());
  looked_ns_ = now_ns;
  network_.reset();
  tallies_.clear();
}

void HostMeasures::State(RankRecord* own, const SectionClock::Moment& now) const {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  const int64_t cpu_ns = absl::ToInt64Nanoseconds(absl::DurationFromTimespec(used)) + QueuedNs();
  own->cpu_ns.store(cpu_ns, std::memory_order_relaxed);
  if (sections_ != nullptr) sections_->State(own, now);
  if (sending_ == nullptr) return;
  for (const Sending& sending : sending_()) {
    uint32_t at = 0;
    while (at < own->peer_count.load() && Get(own->peers[at].host) != static_cast<uint32_t>(sending.host)) ++at;
    if (at == RankRecord::kMostPeerHosts) continue;
    RankRecord::PeerHost& peer = own->peers[at];
    peer.host.store(static_cast<uint32_t>(sending.host), std::memory_order_relaxed);
    peer.sending_ns.store(sending.ns, std::memory_order_relaxed);
    peer.bytes.store(sending.bytes, std::memory_order_relaxed);
    if (at == own->peer_count.load()) own->peer_count.store(at + 1);
  }
}

void HostMeasures::Look(absl::FunctionRef<const RankRecord*(int rank)> see, bool speaks, const LastArrivals* arrivals,
                        int64_t now_ns, v1::Measures* measures) {
  measures->set_interval_us(static_cast<uint64_t>(std::max<int64_t>(0, now_ns - looked_ns_)) / 1000);
  looked_ns_ = now_ns;
  for (size_t at = 0; at < ranks_.size(); ++at) {
    LookAtRank(*see(first_ + static_cast<int>(at)), now_ns, &ranks_[at], measures);
  }
  LookAtSections(see, measures);
  LookAtPeers(see, measures);
  speaks ? LookAtNetwork(measures) : network_.reset();
  if (arrivals != nullptr) LookAtArrivals(*arrivals, measures);
}

// A rank that has just ended its wait may not have added it yet, so a sum that is behind counts from the next look on.
uint64_t HostMeasures::AdvanceWaited(int64_t now, Rank* known) {
  const bool is_behind = known->waited_ns - now > kMostBehindNs;
  if (is_behind && known->behind_ns >= 0) {
    known->waited_ns = std::min(known->behind_ns, now);
    known->behind_ns = -1;
  } else {
    known->behind_ns = is_behind ? now : -1;
  }
  return Advance(now, &known->waited_ns);
}

void HostMeasures::LookAtRank(const RankRecord& record, int64_t now_ns, Rank* known, v1::Measures* measures) const {
  const uint64_t steps = StepsOf(record);
  measures->add_steps(static_cast<uint32_t>(Difference(steps, known->steps)));
  // It goes back once where names turn out to come again.
  known->steps = steps;
  // Waits and collectives that go on count as far as they have come.
  const int64_t batch_since_ns = Get(record.batch_since_ns);
  const int64_t waiting_since_ns = Get(record.waiting_since_ns);
  const int64_t running_ns = batch_since_ns == 0 ? 0 : std::max<int64_t>(0, now_ns - batch_since_ns);
  const int64_t waiting_ns = waiting_since_ns == 0 ? 0 : std::max<int64_t>(0, now_ns - waiting_since_ns);
  measures->add_waited_us(AdvanceWaited(Get(record.waited_ns) + waiting_ns, known));
  measures->add_waited_in_batch_us(
      Advance(Get(record.waited_in_batch_ns) + std::min(waiting_ns, running_ns), &known->waited_in_batch_ns));
  measures->add_batch_us(Advance(Get(record.batch_ns) + running_ns, &known->batch_ns));
  measures->add_cpu_us(Advance(Get(record.cpu_ns), &known->cpu_ns));
  measures->add_waiting_us(AgeUs(Get(record.stuck_since_ns), now_ns));
  measures->add_running_us(AgeUs(batch_since_ns, now_ns));
  measures->add_last_slot(Get(record.last_slot));
  measures->add_batch_slot(Get(record.batch_slot));
}

void HostMeasures::LookAtSections(absl::FunctionRef<const RankRecord*(int rank)> see, v1::Measures* measures) {
  const int count = static_cast<int>(ranks_.size());
  for (int at = 0; at < count; ++at) {
    const RankRecord& record = *see(first_ + at);
    const uint32_t sections = std::min<uint32_t>(record.section_count.load(), RankRecord::kMostSections);
    for (uint32_t section = 0; section < sections; ++section) {
      const uint64_t us = Advance(Get(record.sections[section].own_ns), &ranks_[at].section_ns[section]);
      if (us == 0) continue;
      const absl::string_view name(
          record.sections[section].name,
          std::min<size_t>(Get(record.sections[section].name_bytes), RankRecord::kMostSectionBytes));
      // Few names, the same on most ranks, and most often in the same order.
      int row = 0;
      while (row < measures->sections_size() && measures->sections(row) != name) ++row;
      if (row == static_cast<int>(kMostSections)) continue;
      if (row == measures->sections_size()) {
        measures->add_sections(std::string(name));
        measures->mutable_section_us()->Resize((row + 1) * count, 0);
      }
      measures->set_section_us(row * count + at, us);
    }
  }
}

void HostMeasures::LookAtPeers(absl::FunctionRef<const RankRecord*(int rank)> see, v1::Measures* measures) {
  for (size_t at = 0; at < ranks_.size(); ++at) {
    const RankRecord& record = *see(first_ + static_cast<int>(at));
    const uint32_t peers = std::min<uint32_t>(record.peer_count.load(), RankRecord::kMostPeerHosts);
    for (uint32_t peer = 0; peer < peers; ++peer) {
      PeerHost& known = ranks_[at].peers[peer];
      const uint64_t us = Advance(Get(record.peers[peer].sending_ns), &known.sending_ns);
      const uint64_t bytes = Get(record.peers[peer].bytes);
      const uint64_t delivered = Difference(bytes, std::exchange(known.bytes, bytes));
      if (us == 0) continue;
      const uint32_t host = Get(record.peers[peer].host);
      int row = 0;
      while (row < measures->peer_hosts_size() && measures->peer_hosts(row) != host) ++row;
      if (row == static_cast<int>(kMostPeerHosts)) continue;
      if (row == measures->peer_hosts_size()) {
        measures->add_peer_hosts(host);
        measures->add_peer_sending_us(0);
        measures->add_peer_bytes(0);
      }
      if (us <= measures->peer_sending_us(row)) continue;
      measures->set_peer_sending_us(row, us);
      measures->set_peer_bytes(row, delivered);
    }
  }
}

void HostMeasures::LookAtNetwork(v1::Measures* measures) {
  const NetworkCounters now = read_network_();
  if (network_.has_value()) {
    measures->set_received_bytes(Difference(now.received_bytes, network_->received_bytes));
    measures->set_sent_bytes(Difference(now.sent_bytes, network_->sent_bytes));
    measures->set_retransmits(Difference(now.retransmits, network_->retransmits));
  }
  network_ = now;
}

void HostMeasures::LookAtArrivals(const LastArrivals& arrivals, v1::Measures* measures) {
  struct Late {
    int rank;
    uint64_t steps;
    uint64_t us;
  };
  tallies_.resize(arrivals.size());
  std::vector<Late> late;
  for (int rank = 0; rank < arrivals.size(); ++rank) {
    const LastArrivals::Tally now = arrivals.Read(rank);
    LastArrivals::Tally& before = tallies_[rank];
    const Late one = {rank, now.steps - before.steps, static_cast<uint64_t>(now.alone_ns - before.alone_ns) / 1000};
    before = now;
    if (one.steps > 0 || one.us > 0) late.push_back(one);
  }
  const size_t most = std::min(late.size(), kMostLate);
  std::partial_sort(late.begin(), late.begin() + static_cast<int64_t>(most), late.end(),
                    [](const Late& a, const Late& b) { return a.us != b.us ? a.us > b.us : a.steps > b.steps; });
  for (size_t at = 0; at < most; ++at) {
    measures->add_late_ranks(static_cast<uint32_t>(late[at].rank));
    measures->add_late_steps(static_cast<uint32_t>(late[at].steps));
    measures->add_late_us(late[at].us);
  }
}

}  // namespace farandole
