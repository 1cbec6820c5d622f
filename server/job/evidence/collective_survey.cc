#include "server/job/evidence/collective_survey.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "base/op_type.h"

namespace farandole {
namespace {

constexpr size_t kMostCosts = 64;
constexpr size_t kMostLast = 4;
// Ranks that come within this time come together: of small collectives the end is some microseconds off.
constexpr uint64_t kTogetherUs = 10;

using Tensor = std::pair<uint32_t, absl::string_view>;

// One name's sums on one rank.
struct OfRank {
  uint32_t rank = 0;
  uint64_t count = 0;
  uint64_t bytes = 0;
  uint64_t moved = 0;
  uint64_t moved_bytes = 0;
  double waited_us = 0;
  double moving_us = 0;
};

// One collective in the records of the ranks: how many have met in it, and how long they waited.
struct Occurrence {
  uint32_t ranks = 0;
  uint32_t last = 0;
  uint64_t least_us = std::numeric_limits<uint64_t>::max();
  uint64_t most_us = 0;

  void Add(uint32_t rank, uint64_t waited_us) {
    ++ranks;
    most_us = std::max(most_us, waited_us);
    if (waited_us >= least_us) return;
    least_us = waited_us;
    last = rank;
  }
  // Whether the others waited for `last`. The rank that comes last waits for nobody, so if even the least wait is long,
  // all of them waited for a rank that was not asked.
  bool HasLast() const { return most_us - least_us >= kTogetherUs && least_us <= most_us / 2; }
};

// One name of a group, on all ranks.
struct Sums {
  v1::OpType op = v1::OP_TYPE_ALLREDUCE;
  bool is_on_gpu = false;
  // By rank, ascending: the ranks come one after the other.
  absl::InlinedVector<OfRank, 1> of_rank;
  absl::InlinedVector<std::pair<uint32_t, const v1::FlightRecord*>, 1> records;

  OfRank& Of(uint32_t rank) {
    if (of_rank.empty() || of_rank.back().rank != rank) of_rank.push_back({rank});
    return of_rank.back();
  }
};

// A name, and the time of all ranks in it.
struct CostlyName {
  double waited_us = 0;
  double moving_us = 0;
  const Tensor* tensor = nullptr;
  const Sums* sums = nullptr;

  // The dearest comes first.
  friend bool operator<(const CostlyName& a, const CostlyName& b) {
    const double of_a = a.waited_us + a.moving_us;
    const double of_b = b.waited_us + b.moving_us;
    return of_a != of_b ? of_a > of_b : *a.tensor < *b.tensor;
  }
};

bool HasBatch(const v1::FlightRecord& record) { return record.batch() != 0 || record.started_after_us() != 0; }

bool IsOver(const v1::FlightRecord& record) {
  return record.state() != v1::FlightRecord::SUBMITTED && record.state() != v1::FlightRecord::STARTED;
}

// From submission to start: so far, if it has not started.
uint64_t WaitedUs(const v1::FlightRecord& record) {
  if (record.state() == v1::FlightRecord::SUBMITTED) return record.age_us();
  return HasBatch(record) ? record.started_after_us() : record.ended_after_us();
}

uint64_t MovingUs(const v1::FlightRecord& record) {
  if (record.state() == v1::FlightRecord::SUBMITTED || !HasBatch(record)) return 0;
  const uint64_t until_us = IsOver(record) ? record.ended_after_us() : record.age_us();
  return until_us - std::min(until_us, record.started_after_us());
}

// A worker of another version may send an op that has no row. It counts as a join, which moves nothing.
OpType KnownOp(v1::OpType op) { return op >= 0 && op < kOpTypeCount ? static_cast<OpType>(op) : OpType::kJoin; }

// The size of a collective by nccl-tests' convention, from the sum and the most of what `told` ranks put in.
double SizeOf(v1::OpType op, double sum, double most, double told, double ranks) {
  if (told == 0) return 0;
  const OpTraits& traits = TraitsOf(KnownOp(op));
  if (traits.rows == OpTraits::Rows::kGathers) return sum / told * ranks;
  const bool is_of_root = traits.has_root && traits.rows == OpTraits::Rows::kSharesOut;
  return is_of_root ? most : sum / told;
}

class Survey {
 public:
  Survey(const std::map<uint32_t, v1::FlightRecords>& flights, uint32_t size) : size_(size) {
    for (const auto& [rank, flight] : flights) {
      if (rank >= size) continue;
      ++answered_;
      left_out_ = std::max(left_out_, flight.times_left_out());
      for (const v1::NameTimes& times : flight.times()) Add(rank, times);
      AddRecords(rank, flight);
    }
  }

  v1::SurveyCollectivesResponse Conclude() const {
    v1::SurveyCollectivesResponse response;
    response.set_size(size_);
    response.set_answered(answered_);
    response.set_found(static_cast<uint32_t>(sums_.size()));
    response.set_left_out(left_out_);
    std::vector<CostlyName> names;
    double waited_us = 0, moving_us = 0;
    for (const auto& [tensor, sums] : sums_) {
      CostlyName name{0, 0, &tensor, &sums};
      for (const OfRank& one : sums.of_rank) {
        name.waited_us += one.waited_us;
        name.moving_us += one.moving_us;
      }
      waited_us += name.waited_us;
      moving_us += name.moving_us;
      names.push_back(name);
    }
    response.set_waited_us(static_cast<uint64_t>(waited_us));
    response.set_moving_us(static_cast<uint64_t>(moving_us));
    const size_t shown = std::min(names.size(), kMostCosts);
    std::partial_sort(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), names.end());
    for (size_t i = 0; i < shown; ++i) {
      *response.add_costs() = CostOf(names[i]);
      if (waited_us > 0) response.mutable_costs()->rbegin()->set_wait_percent(100 * names[i].waited_us / waited_us);
    }
    return response;
  }

 private:
  void Add(uint32_t rank, const v1::NameTimes& times) {
    Sums& sums = sums_[{times.group(), times.name()}];
    sums.op = times.op();
    sums.is_on_gpu |= times.is_on_gpu();
    OfRank& of_rank = sums.Of(rank);
    of_rank.count += times.finished();
    of_rank.bytes += times.bytes();
    of_rank.moved += times.moved();
    of_rank.moved_bytes += times.moved_bytes();
    of_rank.waited_us += static_cast<double>(times.waited_us());
    of_rank.moving_us += static_cast<double>(times.moving_us());
  }

  void AddRecords(uint32_t rank, const v1::FlightRecords& flight) {
    // Those that are over are in the times.
    const bool counts_all = flight.times_size() == 0;
    // Of batches: how many bytes they have in the records that count.
    absl::flat_hash_map<uint64_t, uint64_t> batches;
    for (const v1::FlightRecord& record : flight.records()) {
      if (record.batch() != 0 && (counts_all || !IsOver(record))) batches[record.batch()] += record.bytes();
    }
    for (const v1::FlightRecord& record : flight.records()) {
      const bool is_named = record.name() < static_cast<uint32_t>(flight.names_size());
      if (!is_named || record.op() == v1::OP_TYPE_JOIN) continue;
      Sums& sums = sums_[{record.group(), flight.names(static_cast<int>(record.name()))}];
      sums.op = record.op();
      sums.is_on_gpu |= record.is_on_gpu();
      sums.records.emplace_back(rank, &record);
      if (!counts_all && IsOver(record)) continue;
      const uint64_t in_batch = record.batch() == 0 ? 0 : batches.at(record.batch());
      AddRecord(record, in_batch == 0 ? 1 : static_cast<double>(record.bytes()) / static_cast<double>(in_batch),
                &sums.Of(rank));
    }
  }

  static void AddRecord(const v1::FlightRecord& record, double share, OfRank* sums) {
    sums->waited_us += static_cast<double>(WaitedUs(record));
    sums->moving_us += static_cast<double>(MovingUs(record)) * share;
    if (!IsOver(record)) return;
    ++sums->count;
    sums->bytes += record.bytes();
    if (!HasBatch(record) || record.state() != v1::FlightRecord::FINISHED) return;
    ++sums->moved;
    sums->moved_bytes += record.bytes();
  }

  // How many ranks a tensor's group has: of other groups than 0 only those are known that have answered.
  uint32_t Ranks(uint32_t group, const Sums& sums) const {
    return group == 0 ? size_ : static_cast<uint32_t>(sums.of_rank.size());
  }

  v1::CollectiveCost CostOf(const CostlyName& name) const {
    const auto& [group, text] = *name.tensor;
    v1::CollectiveCost cost;
    cost.set_group(group);
    cost.set_name(std::string(text));
    cost.set_op(name.sums->op);
    cost.set_is_on_gpu(name.sums->is_on_gpu);
    cost.set_waited_us(static_cast<uint64_t>(name.waited_us));
    cost.set_moving_us(static_cast<uint64_t>(name.moving_us));
    AddMeans(name, &cost);
    AddSize(group, *name.sums, &cost);
    AddLast(group, *name.sums, &cost);
    return cost;
  }

  static void AddMeans(const CostlyName& name, v1::CollectiveCost* cost) {
    double counted = 0, moved = 0;
    double least_us = std::numeric_limits<double>::infinity();
    for (const OfRank& one : name.sums->of_rank) {
      // A wait that goes on counts, and is not over.
      const auto count = static_cast<double>(std::max<uint64_t>(one.count, 1));
      counted += count;
      moved += static_cast<double>(one.moved);
      cost->set_count(std::max(cost->count(), one.count));
      if (one.waited_us / count >= least_us) continue;
      least_us = one.waited_us / count;
      cost->set_least_wait_rank(one.rank);
      cost->set_least_wait_us(least_us);
    }
    if (counted > 0) cost->set_mean_wait_us(name.waited_us / counted);
    if (moved > 0) cost->set_mean_moving_us(name.moving_us / moved);
  }

  void AddSize(uint32_t group, const Sums& sums, v1::CollectiveCost* cost) const {
    const double ranks = Ranks(group, sums);
    double sum = 0, most = 0, told = 0, moved_sum = 0, moved_most = 0, moved_told = 0, seconds = 0;
    for (const OfRank& one : sums.of_rank) {
      if (one.count > 0) {
        const double bytes = static_cast<double>(one.bytes) / static_cast<double>(one.count);
        sum += bytes;
        most = std::max(most, bytes);
        ++told;
      }
      if (one.moved == 0) continue;
      const double bytes = static_cast<double>(one.moved_bytes) / static_cast<double>(one.moved);
      moved_sum += bytes;
      moved_most = std::max(moved_most, bytes);
      seconds += one.moving_us / 1e6 / static_cast<double>(one.moved);
      ++moved_told;
    }
    cost->set_bytes(static_cast<uint64_t>(SizeOf(sums.op, sum, most, told, ranks)));
    if (sums.is_on_gpu || seconds <= 0) return;
    const double rate = SizeOf(sums.op, moved_sum, moved_most, moved_told, ranks) / (seconds / moved_told);
    cost->set_algorithm_bytes_per_second(rate);
    cost->set_bus_bytes_per_second(rate * BusFactor(KnownOp(sums.op), ranks));
  }

  void AddLast(uint32_t group, const Sums& sums, v1::CollectiveCost* cost) const {
    // By ordinal.
    absl::flat_hash_map<uint32_t, Occurrence> occurrences;
    for (const auto& [rank, record] : sums.records) {
      const uint64_t waited_us = WaitedUs(*record);
      if (waited_us > cost->longest_wait_us()) {
        cost->set_longest_wait_us(waited_us);
        cost->set_longest_wait_rank(rank);
      }
      if (record->state() == v1::FlightRecord::STARTED || record->state() == v1::FlightRecord::FINISHED)
        occurrences[record->ordinal()].Add(rank, waited_us);
    }
    const size_t awaited = group == 0 ? answered_ : sums.of_rank.size();
    std::map<uint32_t, uint64_t> last;
    for (const auto& [ordinal, occurrence] : occurrences) {
      if (occurrence.ranks < awaited || awaited < 2) continue;
      cost->set_compared(cost->compared() + 1);
      if (occurrence.HasLast()) ++last[occurrence.last];
    }
    std::vector<std::pair<uint32_t, uint64_t>> sorted(last.begin(), last.end());
    absl::c_stable_sort(sorted, [](const auto& a, const auto& b) { return a.second > b.second; });
    for (size_t i = 0; i < std::min(sorted.size(), kMostLast); ++i) {
      v1::LastArrival* const arrival = cost->add_last();
      arrival->set_rank(sorted[i].first);
      arrival->set_times(sorted[i].second);
    }
  }

  const uint32_t size_;
  uint32_t answered_ = 0;
  uint32_t left_out_ = 0;
  // Names are those of the flights.
  absl::flat_hash_map<Tensor, Sums> sums_;
};

}  // namespace

v1::SurveyCollectivesResponse SurveyCollectives(const std::map<uint32_t, v1::FlightRecords>& flights, uint32_t size) {
  return Survey(flights, size).Conclude();
}

}  // namespace farandole
