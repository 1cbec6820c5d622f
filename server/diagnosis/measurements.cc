#include "server/diagnosis/measurements.h"

#include <algorithm>
#include <utility>

namespace farandole {
namespace {

// Over so much time are steps counted; of a step that takes seconds there are some in it.
constexpr double kPaceSeconds = 30;
// However often heartbeats come.
constexpr size_t kMostPaces = 64;
// A network's rates forget what is older than some ten heartbeats.
constexpr double kNewWeight = 0.2;

double SecondsOf(uint64_t us) { return static_cast<double>(us) / 1e6; }

template <typename Column>
uint64_t At(const Column& column, int at) {
  return at < column.size() ? column.Get(at) : 0;
}

uint16_t Thousandths(double part, double whole) {
  return whole > 0 ? static_cast<uint16_t>(std::clamp(1000 * part / whole + 0.5, 0.0, 65535.0)) : 0;
}

void Accumulate(const RankSpan& span, RankSpan* sum) {
  sum->seconds += span.seconds;
  sum->waited += span.waited;
  sum->waited_in_batch += span.waited_in_batch;
  sum->batch += span.batch;
  sum->cpu += span.cpu;
  sum->alone += span.alone;
  sum->steps += span.steps;
  sum->last_steps += span.last_steps;
  sum->silent = std::max(sum->silent, span.silent);
}

RankSpan SpanOf(const v1::Heartbeat& heartbeat, int at) {
  const v1::Measures& measures = heartbeat.measures();
  RankSpan span;
  span.seconds = SecondsOf(measures.interval_us());
  // Several threads that wait count as one.
  span.waited = std::min(SecondsOf(At(measures.waited_us(), at)), span.seconds);
  span.waited_in_batch = std::min(SecondsOf(At(measures.waited_in_batch_us(), at)), span.waited);
  span.batch = std::min(SecondsOf(At(measures.batch_us(), at)), span.seconds);
  span.cpu = SecondsOf(At(measures.cpu_us(), at));
  span.steps = At(measures.steps(), at);
  span.silent = static_cast<double>(heartbeat.pulses(at).age_ms()) / 1e3;
  return span;
}

}  // namespace

Measurements::Measurements(std::vector<uint32_t> hosts, MemoryBudget* budget, MeasuredHistory* history,
                           absl::Time began)
    : hosts_(std::move(hosts)),
      memory_(budget),
      history_(history),
      began_(began),
      totals_(hosts_.size()),
      present_(hosts_.size()),
      gpus_(hosts_.size()),
      least_own_(hosts_.size()),
      networks_(hosts_.empty() ? 0 : *std::max_element(hosts_.begin(), hosts_.end()) + 1),
      links_(networks_.size(), budget),
      sections_(hosts_.size(), budget) {}

void Measurements::Open() {
  is_open_ = true;
  const size_t bytes = size() * (kBuckets * sizeof(Cell) + sizeof(OpenRollUp)) + networks_.size() * sizeof(OpenTraffic);
  if (!memory_.Take(static_cast<int64_t>(bytes))) return;
  cells_.resize(size() * kBuckets);
  open_roll_ups_.resize(size());
  open_traffic_.resize(networks_.size());
}

void Measurements::Take(const v1::Heartbeat& heartbeat, absl::Time now) {
  if (!heartbeat.has_measures()) return;
  if (!is_open_) Open();
  if (open_number_ >= 0 && history().NumberAt(now) > open_number_) Close();
  if (is_kept() && open_number_ < 0) open_number_ = history().NumberAt(now);
  const v1::Measures& measures = heartbeat.measures();
  for (int at = 0; at < heartbeat.pulses_size(); ++at) {
    const uint32_t rank = heartbeat.pulses(at).rank();
    const RankSpan span = SpanOf(heartbeat, at);
    present_[rank] = {SecondsOf(At(measures.waiting_us(), at)), SecondsOf(At(measures.running_us(), at)), span.silent,
                      static_cast<uint32_t>(At(measures.last_slot(), at)),
                      static_cast<uint32_t>(At(measures.batch_slot(), at))};
    Add(rank, span, now);
    if (is_kept()) AddToRollUp(rank, span);
    if (rank == 0) NotePace();
  }
  sections_.Take(heartbeat, now - began_);
  if (heartbeat.pulses_size() > 0) {
    const uint32_t host = hosts_[heartbeat.pulses(0).rank()];
    AddNetwork(host, measures);
    links_.Take(host, measures, now - began_);
  }
  for (int at = 0; at < measures.late_ranks_size(); ++at) {
    RankSpan span;
    span.last_steps = At(measures.late_steps(), at);
    span.alone = SecondsOf(At(measures.late_us(), at));
    Add(measures.late_ranks(at), span, now);
  }
}

void Measurements::Add(uint32_t rank, const RankSpan& span, absl::Time now) {
  Accumulate(span, &totals_[rank]);
  if (!is_kept()) return;
  Cell& cell = CellOf(rank, EndBucket(now));
  cell.seconds += static_cast<float>(span.seconds);
  cell.waited += static_cast<float>(span.waited);
  cell.waited_in_batch += static_cast<float>(span.waited_in_batch);
  cell.cpu += static_cast<float>(span.cpu);
  cell.alone += static_cast<float>(span.alone);
  cell.silent = std::max(cell.silent, static_cast<float>(span.silent));
  cell.steps = Saturated(cell.steps + span.steps);
  cell.last_steps = Saturated(cell.last_steps + span.last_steps);
}

Measurements::Cell& Measurements::CellOf(uint32_t rank, int64_t bucket) {
  Cell& cell = cells_[rank * kBuckets + static_cast<size_t>(bucket) % kBuckets];
  if (cell.bucket != bucket) {
    cell = Cell();
    cell.bucket = static_cast<int32_t>(bucket);
  }
  return cell;
}

void Measurements::AddToRollUp(uint32_t rank, const RankSpan& span) {
  OpenRollUp& open = open_roll_ups_[rank];
  Accumulate(span, &open.sum);
  if (span.seconds <= 0) return;
  open.most_waited = std::max(open.most_waited, span.waited_for_others() / span.seconds);
  open.most_transfer = std::max(open.most_transfer, span.waited_in_batch / span.seconds);
  const auto weight = static_cast<uint64_t>(1e6 * span.seconds);
  const auto add = [weight](const std::optional<double>& share, MeanShare* mean) {
    if (share.has_value()) mean->Add(Thousandths(*share, 1), weight);
  };
  add(gpus_[rank].busy, &open.gpu);
  add(gpus_[rank].memory, &open.gpu_memory);
}

void Measurements::Close() {
  if (open_number_ < 0) return;
  std::vector<RollUp> over(size());
  for (size_t rank = 0; rank < size(); ++rank) {
    const OpenRollUp open = std::exchange(open_roll_ups_[rank], OpenRollUp());
    const RankSpan& sum = open.sum;
    over[rank] = {Saturated(static_cast<uint64_t>(10 * sum.seconds + 0.5)),
                  Thousandths(sum.waited_for_others(), sum.seconds),
                  Thousandths(open.most_waited, 1),
                  Thousandths(sum.waited_in_batch, sum.seconds),
                  Thousandths(open.most_transfer, 1),
                  Thousandths(sum.cpu, sum.seconds),
                  static_cast<uint32_t>(sum.steps)};
    over[rank].SetGpu(open.gpu.Value());
    over[rank].SetGpuMemory(open.gpu_memory.Value());
    if (sum.steps < kLeastSteps) continue;
    const float own = static_cast<float>(sum.own() / static_cast<double>(sum.steps));
    if (least_own_[rank] <= 0 || own < least_own_[rank]) least_own_[rank] = own;
  }
  CloseTraffic(open_number_);
  history_->ranks.Add(std::exchange(open_number_, -1), over);
}

void Measurements::CloseTraffic(int64_t number) {
  std::vector<NetworkRollUp> over(open_traffic_.size());
  for (size_t host = 0; host < over.size(); ++host) {
    const OpenTraffic open = std::exchange(open_traffic_[host], OpenTraffic());
    if (open.seconds <= 0) continue;
    NetworkRollUp& one = over[host];
    one.tenths = Saturated(static_cast<uint64_t>(10 * open.seconds + 0.5));
    one.received = static_cast<float>(static_cast<double>(open.received) / open.seconds);
    one.sent = static_cast<float>(static_cast<double>(open.sent) / open.seconds);
    one.retransmits = static_cast<uint32_t>(open.retransmits);
  }
  history_->hosts.Add(number, over);
}

void Measurements::AddNetwork(uint32_t host, const v1::Measures& measures) {
  const double seconds = SecondsOf(measures.interval_us());
  if (seconds <= 0) return;
  const auto blend = [seconds](uint64_t now, double* rate) {
    *rate += kNewWeight * (static_cast<double>(now) / seconds - *rate);
  };
  Network& network = networks_[host];
  blend(measures.received_bytes(), &network.received_bytes);
  blend(measures.sent_bytes(), &network.sent_bytes);
  blend(measures.retransmits(), &network.retransmits);
  network.total_retransmits += measures.retransmits();
  if (open_traffic_.empty()) return;
  OpenTraffic& open = open_traffic_[host];
  open.seconds += seconds;
  open.received += measures.received_bytes();
  open.sent += measures.sent_bytes();
  open.retransmits += measures.retransmits();
}

void Measurements::NotePace() {
  paces_.push_back({totals_[0].seconds, totals_[0].steps});
  // The one that remains at the front is the last one outside of the half minute.
  while (paces_.size() > kMostPaces || (paces_.size() > 2 && paces_.back().seconds - paces_[1].seconds >= kPaceSeconds))
    paces_.pop_front();
}

std::optional<double> Measurements::StepsPerSecond() const {
  if (paces_.size() < 2) return std::nullopt;
  const double seconds = paces_.back().seconds - paces_.front().seconds;
  if (seconds <= 0) return std::nullopt;
  return static_cast<double>(paces_.back().steps - paces_.front().steps) / seconds;
}

int64_t Measurements::EndBucket(absl::Time now) const { return std::max<int64_t>(0, (now - began_) / kBucket); }

RankSpan Measurements::In(uint32_t rank, int64_t bucket) const {
  RankSpan span;
  if (!is_kept() || bucket < 0) return span;
  const Cell& cell = cells_[rank * kBuckets + static_cast<size_t>(bucket) % kBuckets];
  if (cell.bucket != bucket) return span;
  span.seconds = cell.seconds;
  span.waited = cell.waited;
  span.waited_in_batch = cell.waited_in_batch;
  span.cpu = cell.cpu;
  span.alone = cell.alone;
  span.silent = cell.silent;
  span.steps = cell.steps;
  span.last_steps = cell.last_steps;
  return span;
}

RankSpan Measurements::Sum(uint32_t rank, int64_t end, int64_t count) const {
  RankSpan sum;
  // A worker's numbers may choose the count, and no older bucket is kept.
  count = std::min(count, static_cast<int64_t>(kBuckets));
  for (int64_t bucket = std::max<int64_t>(0, end - count); bucket < end; ++bucket) Accumulate(In(rank, bucket), &sum);
  return sum;
}

}  // namespace farandole
