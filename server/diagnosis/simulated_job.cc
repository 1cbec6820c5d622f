#include "server/diagnosis/simulated_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farandole/v1/worker.pb.h"

namespace farandole {
namespace {

std::vector<uint32_t> HostsOf(const SimulatedJob::Plan& plan) {
  std::vector<uint32_t> hosts;
  for (int rank = 0; rank < plan.ranks; ++rank) hosts.push_back(static_cast<uint32_t>(rank / plan.ranks_per_host));
  return hosts;
}

uint64_t Us(double seconds) { return static_cast<uint64_t>(std::max(0.0, seconds) * 1e6); }

// An epoch has begun in `history`.
MeasuredHistory* Begun(MeasuredHistory* history) {
  history->Begin(1, {}, {}, SimulatedJob::TimeAt(0), absl::ZeroDuration());
  return history;
}

}  // namespace

SimulatedJob::SimulatedJob(Plan plan, MemoryBudget* budget)
    : plan_(std::move(plan)),
      random_(plan_.seed),
      measurements_(HostsOf(plan_), budget, Begun(&history_), TimeAt(0)),
      sums_(plan_.ranks),
      told_(plan_.ranks),
      silent_(plan_.ranks, 0),
      slots_(plan_.ranks, 1),
      gpus_(plan_.ranks),
      last_steps_(plan_.ranks, 0),
      alone_(plan_.ranks, 0) {}

void SimulatedJob::Run(double seconds, const std::function<void()>& look) {
  const double end = now_ + seconds;
  double next_look = now_ + 2;
  while (now_ < end) {
    Step();
    if (look == nullptr || now_ < next_look) continue;
    next_look = now_ + 2;
    look();
  }
}

void SimulatedJob::Step() {
  std::normal_distribution<double> noise(1, plan_.noise);
  std::vector<Work> work(plan_.ranks);
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    work[rank].own = plan_.own * std::max(0.1, noise(random_));
    if (plan_.work) work[rank] = plan_.work(rank, now_, work[rank].own);
  }
  const auto last =
      std::max_element(work.begin(), work.end(), [](const Work& a, const Work& b) { return a.own < b.own; });
  const int last_rank = static_cast<int>(last - work.begin());
  double second = 0;
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    if (rank != last_rank) second = std::max(second, work[rank].own);
  }
  const double began = now_;
  const double all_ready = began + last->own + plan_.delay;
  const double end = all_ready + plan_.transfer;
  const auto at = [&](int rank, double time) {
    Sums sums = sums_[rank];
    const double ready = began + work[rank].own;
    sums.waited += std::max(0.0, time - ready);
    sums.in_batch += std::max(0.0, time - all_ready);
    sums.cpu += work[rank].busy * std::min(time - began, work[rank].own);
    const double data = std::min(time - began, work[rank].data);
    sums.data += data;
    sums.forward += std::max(0.0, std::min(time - began, work[rank].own - work[rank].outside) - data);
    return sums;
  };
  const auto waiting = [&](int rank, double time) {
    const double ready = began + work[rank].own;
    return time > ready && time < all_ready ? time - ready : 0.0;
  };
  BeatUntil(end, at, waiting);
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    sums_[rank] = at(rank, end);
    ++sums_[rank].steps;
  }
  ++last_steps_[last_rank];
  // Of itself rank 0 does not know.
  if (last_rank != 0) alone_[last_rank] += last->own - second;
  now_ = end;
}

void SimulatedJob::Stand(const std::vector<int>& absent, double seconds) {
  const double began = now_;
  const auto is_absent = [&absent](int rank) { return std::count(absent.begin(), absent.end(), rank) > 0; };
  const auto at = [&](int rank, double time) {
    Sums sums = sums_[rank];
    if (!is_absent(rank)) sums.waited += time - began;
    return sums;
  };
  const auto waiting = [&](int rank, double time) { return is_absent(rank) ? 0.0 : time - began; };
  BeatUntil(began + seconds, at, waiting);
  for (int rank = 0; rank < plan_.ranks; ++rank) sums_[rank] = at(rank, began + seconds);
  now_ = began + seconds;
}

void SimulatedJob::BeatUntil(double until, const std::function<Sums(int, double)>& at,
                             const std::function<double(int, double)>& waiting) {
  for (; next_beat_ <= until; next_beat_ += 0.5) {
    for (int first = 0; first < plan_.ranks; first += plan_.ranks_per_host) {
      v1::Heartbeat beat;
      v1::Measures* measures = beat.mutable_measures();
      std::vector<uint64_t> data;
      std::vector<uint64_t> forward;
      measures->set_interval_us(500'000);
      for (int rank = first; rank < std::min(plan_.ranks, first + plan_.ranks_per_host); ++rank) {
        const Sums now = at(rank, next_beat_);
        Sums& before = told_[rank];
        v1::Pulse* pulse = beat.add_pulses();
        pulse->set_rank(static_cast<uint32_t>(rank));
        pulse->set_age_ms(Us(silent_[rank]) / 1000);
        silent_[rank] = std::max(0.0, silent_[rank] - 0.5);
        measures->add_steps(static_cast<uint32_t>(now.steps - before.steps));
        measures->add_waited_us(Us(now.waited - before.waited));
        measures->add_waited_in_batch_us(Us(now.in_batch - before.in_batch));
        measures->add_cpu_us(Us(now.cpu - before.cpu));
        measures->add_waiting_us(Us(waiting(rank, next_beat_)));
        measures->add_running_us(0);
        measures->add_last_slot(slots_[rank]);
        if (rank == first) AddLinks(first / plan_.ranks_per_host, now.in_batch - before.in_batch, measures);
        data.push_back(Us(now.data - before.data));
        forward.push_back(Us(now.forward - before.forward));
        before = now;
      }
      if (plan_.marks) {
        measures->add_sections("data");
        measures->add_sections("forward");
        measures->mutable_section_us()->Add(data.begin(), data.end());
        measures->mutable_section_us()->Add(forward.begin(), forward.end());
      }
      for (int rank = 0; first == 0 && rank < plan_.ranks; ++rank) {
        if (last_steps_[rank] == 0 || measures->late_ranks_size() == 32) continue;
        measures->add_late_ranks(static_cast<uint32_t>(rank));
        measures->add_late_steps(static_cast<uint32_t>(std::exchange(last_steps_[rank], 0)));
        measures->add_late_us(Us(std::exchange(alone_[rank], 0)));
      }
      measurements_.Take(beat, TimeAt(next_beat_));
    }
  }
}

void SimulatedJob::AddLinks(int host, double transfer, v1::Measures* measures) const {
  const int hosts = (plan_.ranks + plan_.ranks_per_host - 1) / plan_.ranks_per_host;
  for (int to = 0; plan_.link && to < hosts; ++to) {
    if (to == host) continue;
    const Link link = plan_.link(host, to, next_beat_);
    measures->add_peer_hosts(static_cast<uint32_t>(to));
    measures->add_peer_sending_us(Us(link.busy * transfer));
    measures->add_peer_bytes(static_cast<uint64_t>(link.rate * link.busy * transfer));
  }
}

EpochFacts SimulatedJob::Around() const {
  EpochFacts around;
  around.is_present = [](uint32_t) { return true; };
  around.gpu_busy = [this](uint32_t rank) { return gpus_[rank]; };
  around.name_rank = [this](uint32_t rank) {
    return absl::StrCat("rank ", rank, " (node-", rank / static_cast<uint32_t>(plan_.ranks_per_host), ")");
  };
  around.name_host = [](uint32_t host) { return absl::StrCat("host node-", host); };
  around.name_slot = [](uint32_t slot) { return absl::StrCat("'tensor ", slot, "'"); };
  return around;
}

Diagnosis SimulatedJob::Decide() const {
  const EpochFacts around = Around();
  return Judge(measurements_, around).Decide(now());
}

Shares SimulatedJob::Totals() const {
  const EpochFacts around = Around();
  return Judge(measurements_, around).Totals();
}

std::optional<Blocker> SimulatedJob::WorstOfAll() const {
  const EpochFacts around = Around();
  return Judge(measurements_, around).WorstOfAll();
}

}  // namespace farandole
