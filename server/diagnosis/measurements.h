#ifndef FARANDOLE_SERVER_DIAGNOSIS_MEASUREMENTS_H_
#define FARANDOLE_SERVER_DIAGNOSIS_MEASUREMENTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "server/diagnosis/host_links.h"
#include "server/diagnosis/memory_budget.h"
#include "server/diagnosis/roll_up_history.h"
#include "server/diagnosis/section_times.h"

namespace farandole {

// Fewer steps say nothing about what is steady.
inline constexpr uint64_t kLeastSteps = 10;

// The measurements of one rank over a span of time.
struct RankSpan {
  // How much of the span was measured.
  double seconds = 0;
  // As in v1::Measures.
  double waited = 0;
  double waited_in_batch = 0;
  double batch = 0;
  double cpu = 0;
  // For how long it alone was missing, as rank 0 saw it.
  double alone = 0;
  uint64_t steps = 0;
  // Steps in which it was the last.
  uint64_t last_steps = 0;
  // The longest time for which its beat stood still.
  double silent = 0;

  double waited_for_others() const { return waited > waited_in_batch ? waited - waited_in_batch : 0; }
  double own() const { return seconds > waited ? seconds - waited : 0; }
};

// The measurements of an epoch's ranks: the last minute in half seconds, and the sums since the epoch began. Each ten
// seconds go to the job's history. Pure: times come with the calls. Memory is taken from the budget, some 4 kB a rank,
// when the first measurement comes; where it is refused, only sums are kept.
class Measurements {
 public:
  static constexpr absl::Duration kBucket = absl::Milliseconds(500);
  static constexpr size_t kBuckets = 120;

  // The traffic of a host's network lately, each second, and since the epoch began.
  struct Network {
    double received_bytes = 0;
    double sent_bytes = 0;
    double retransmits = 0;
    uint64_t total_retransmits = 0;
  };
  // The latest words about a rank.
  struct Present {
    // For how long its program has waited, and its collective has run, without a break.
    double waiting = 0;
    double running = 0;
    double silent = 0;
    uint32_t last_slot = 0;
    uint32_t batch_slot = 0;
  };

  // How a rank's GPU was used when it told last, 0 to 1.
  struct GpuUse {
    std::optional<double> busy;
    std::optional<double> memory;
  };

  // `hosts`: by rank, the number of its host. `budget`: null where all may be kept. `history`: the job's, in which this
  // epoch has begun. Both outlive this object.
  Measurements(std::vector<uint32_t> hosts, MemoryBudget* budget, MeasuredHistory* history, absl::Time began);

  // Before a heartbeat: what counts for its interval.
  void SetGpu(uint32_t rank, const GpuUse& use) { gpus_[rank] = use; }
  // A heartbeat that is within its bounds.
  void Take(const v1::Heartbeat& heartbeat, absl::Time now);
  // Nothing more comes: the ten seconds that are not over go to the history as they are.
  void Close();

  size_t size() const { return hosts_.size(); }
  uint32_t host(uint32_t rank) const { return hosts_[rank]; }
  const Network& network(uint32_t host) const { return networks_[host]; }
  const HostLinks& links() const { return links_; }
  const SectionTimes& sections() const { return sections_; }
  absl::Time began() const { return began_; }
  bool is_kept() const { return !cells_.empty(); }
  // The buckets that are over by `now`, of which the rings have something: [first, end).
  int64_t EndBucket(absl::Time now) const;
  // One rank in one bucket; nothing where it is not known any more.
  RankSpan In(uint32_t rank, int64_t bucket) const;
  // One rank in the last `count` buckets before `end`, of which it looks at kBuckets at most.
  RankSpan Sum(uint32_t rank, int64_t end, int64_t count) const;
  const RankSpan& Total(uint32_t rank) const { return totals_[rank]; }
  const Present& present(uint32_t rank) const { return present_[rank]; }
  // The least of the rank's own time in a step, in ten seconds of the epoch that are over; 0: not known.
  double LeastOwnAStep(uint32_t rank) const { return least_own_[rank]; }
  // Of rank 0, whether rings are kept or not: over its latest heartbeats, of some half a minute.
  std::optional<double> StepsPerSecond() const;
  const RollUpHistory& history() const { return history_->ranks; }
  absl::Time TimeOf(int64_t bucket) const { return began_ + static_cast<double>(bucket) * kBucket; }

 private:
  struct Cell {
    int32_t bucket = -1;
    float seconds = 0;
    float waited = 0;
    float waited_in_batch = 0;
    float cpu = 0;
    float alone = 0;
    float silent = 0;
    uint16_t steps = 0;
    uint16_t last_steps = 0;
  };
  // A rank's sums in the ten seconds that are not over.
  struct OpenRollUp {
    RankSpan sum;
    double most_waited = 0;
    double most_transfer = 0;
    // Each in thousandths, weighted by microseconds.
    MeanShare gpu;
    MeanShare gpu_memory;
  };

  // The steps that a rank had begun, and its time.
  struct Pace {
    double seconds = 0;
    uint64_t steps = 0;
  };

  // A host's sums in these ten seconds.
  struct OpenTraffic {
    double seconds = 0;
    uint64_t received = 0;
    uint64_t sent = 0;
    uint64_t retransmits = 0;
  };

  // At the first measurement.
  void Open();
  Cell& CellOf(uint32_t rank, int64_t bucket);
  void Add(uint32_t rank, const RankSpan& span, absl::Time now);
  void AddToRollUp(uint32_t rank, const RankSpan& span);
  void NotePace();
  void AddNetwork(uint32_t host, const v1::Measures& measures);
  void CloseTraffic(int64_t number);

  const std::vector<uint32_t> hosts_;
  MemoryShare memory_;
  MeasuredHistory* const history_;
  const absl::Time began_;
  bool is_open_ = false;
  std::vector<RankSpan> totals_;
  // Of rank 0 after its latest heartbeats, the oldest first.
  std::deque<Pace> paces_;
  std::vector<Present> present_;
  std::vector<GpuUse> gpus_;
  std::vector<float> least_own_;
  std::vector<Network> networks_;
  HostLinks links_;
  SectionTimes sections_;
  // By rank and ring position.
  std::vector<Cell> cells_;
  // The number of these ten seconds, and the sums by rank.
  int64_t open_number_ = -1;
  std::vector<OpenRollUp> open_roll_ups_;
  // By host.
  std::vector<OpenTraffic> open_traffic_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_MEASUREMENTS_H_
