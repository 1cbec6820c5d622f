#ifndef FARANDOLE_SERVER_DIAGNOSIS_ROLL_UP_HISTORY_H_
#define FARANDOLE_SERVER_DIAGNOSIS_ROLL_UP_HISTORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/diagnosis/memory_budget.h"
#include "server/diagnosis/roll_up.h"
#include "server/store/store.h"

namespace farandole {

// The work and the waits of a job's ranks since it began, and of the job in all: the latest hour in steps of ten
// seconds, and the older the coarser. It outlives epochs and, by its rows in the store, the coordinator. Pure: times
// come with the calls. Owned by its Job. docs/decisions/0034-measurements-are-kept.md has the arithmetic.
//
// If a process continues in the next epoch, its history continues too, even if its rank changes. A process that
// replaces a lost one begins a new history.
//
// The same for hosts' networks, by the numbers of hosts: `Value` says which.
template <typename Value>
class BasicRollUpHistory {
 public:
  static constexpr absl::Duration kFinest = absl::Seconds(10);
  struct Level {
    // The width of a point, in tens of seconds.
    int64_t width;
    // How many of the latest points are kept, and how many are put into a row at most.
    int64_t kept;
    int64_t in_row;
  };
  // 10 s for an hour, 1 min for 6 hours, 10 min for 3 days, 1 h for 30 days. A coarser row is made before the finer
  // points go from which it is computed.
  static constexpr std::array<Level, 4> kLevels = {{{1, 366, 6}, {6, 370, 10}, {60, 438, 6}, {360, 720, 6}}};
  // The most bytes of one job, in memory as in the store. Each level has a quarter of them, which is all that 1,400
  // ranks need.
  static constexpr int64_t kMostBytes = 64 << 20;
  // The most epochs of which it is known what rank each member had in the epoch before, and the most bytes of that.
  static constexpr size_t kMostLinks = 1024;
  static constexpr int64_t kMostLinkBytes = 4 << 20;
  // The most points that a Read of a limited time gives of a level: enough for a chart, and 30 days of hours.
  static constexpr int64_t kMostRead = 720;
  // In place of a rank: the job in all. Its shares are averages over the ranks, and the most of them; its steps are
  // those of the rank that has made most.
  static constexpr uint32_t kWholeJob = std::numeric_limits<uint32_t>::max();

  struct Point {
    // The number of the first ten seconds in it, and when they began by the wall clock.
    int64_t number = 0;
    absl::Time at;
    absl::Duration width;
    Value value;
  };

  // `rows`: what the keys of its rows begin with. `budget` outlives this object; null: all may be kept.
  BasicRollUpHistory(std::string rows, MemoryBudget* budget) : rows_(std::move(rows)), memory_(budget) {}

  // An epoch runs from now on; its number is greater than that of the one before, or the same after a restart of the
  // coordinator. `old_ranks`: of each rank the one that it had in the epoch before, or -1; empty: all are new.
  void Begin(uint64_t epoch, std::vector<int32_t> old_ranks, absl::Time now, absl::Duration wall_ahead);
  // The number of the ten seconds that something measured now belongs to.
  int64_t NumberAt(absl::Time now) const;
  // When these ten seconds began, by the clock of `now`.
  absl::Time TimeOf(int64_t number) const;
  // Ten seconds are over: all that the epoch's ranks did in them, by rank.
  void Add(int64_t number, absl::Span<const Value> ranks);
  // The epoch has ended, or the coordinator ends: what there is goes to the store now.
  void Hasten() { is_hasty_ = is_due_ = true; }

  // The points of a member of the epoch, oldest first; ranks that it had in earlier epochs included. `latest` limits
  // them to so long before the job's last point. They then have the width of the finest level that covers this time
  // with kMostRead points, and are coarser where no finer ones are kept. nullopt: all points that there are.
  std::vector<Point> Read(uint64_t epoch, uint32_t rank, std::optional<absl::Duration> latest = std::nullopt) const;
  // The same for several members together: as the job in all has it for all ranks.
  std::vector<Point> ReadMean(uint64_t epoch, absl::Span<const uint32_t> ranks,
                              std::optional<absl::Duration> latest) const;
  // The epoch that runs, or ran last.
  uint64_t epoch() const { return epoch_; }
  // The latest hour of a rank of the epoch that runs, by the numbers of ten seconds, oldest first.
  std::vector<std::pair<int64_t, Value>> ReadFinest(uint32_t rank) const;
  int64_t bytes() const;

  // There are rows to write or to delete: once a minute or less, for jobs of 1,365 ranks or fewer.
  bool IsDue() const { return is_due_; }
  // Appends what is due, as far as one commit takes it. False: there is more.
  bool Save(StoreBatch* batch);
  // A row of an earlier life; all of them in the order of their keys, before anything else. One for which there is no
  // memory stays in the store. DATA_LOSS: it cannot be read, and will be deleted.
  absl::Status Load(const StoreRow& row);
  // Deletes all of it, also from the store.
  void Clear();

 private:
  // Points of one epoch that follow each other: a row.
  struct Run {
    uint64_t epoch = 0;
    // The number of its first point since 1970, in its own level's width.
    int64_t first = 0;
    // Values in a point: one for each rank, and one for the job.
    size_t size = 0;
    // By point and rank.
    std::vector<Value> values;
    bool is_kept = false;
    bool is_dirty = false;

    int64_t points() const { return static_cast<int64_t>(values.size() / size); }
    int64_t end() const { return first + points(); }
    const Value* point(int64_t at) const { return &values[static_cast<size_t>(at) * size]; }
    // In memory.
    int64_t bytes() const { return static_cast<int64_t>(sizeof(Run) + values.size() * sizeof(Value)); }
  };
  struct Links {
    std::vector<int32_t> old_ranks;
    bool is_kept = false;

    int64_t bytes() const { return static_cast<int64_t>(old_ranks.size() * sizeof(int32_t)); }
  };
  using Runs = std::deque<Run>;
  static constexpr int64_t kValueBytes = sizeof(Value);
  // The value that is read of a run's point of this index; where its `tenths` are 0, there is none.
  using ValueOf = std::function<Value(const Run&, int64_t)>;

  static int64_t PointsOfRow(size_t level, size_t size);
  static bool IsFull(size_t level, const Run& run) { return run.points() >= PointsOfRow(level, run.size); }
  // Puts it to the level's last point, if it is of the same time, or behind it.
  void AddPoint(size_t level, uint64_t epoch, int64_t number, absl::Span<const Value> values);
  // Puts what is over into the coarser levels.
  void FoldUp();
  // Drops what is too old, or too much.
  void Trim();
  void DropOldest(size_t level);
  // Drops the oldest of the largest level until so many bytes are free.
  void MakeRoom(int64_t bytes);
  bool TakeRoom(size_t level, int64_t bytes);
  void ForgetEpochs();
  // False: there is no memory. Drops the oldest beyond kMostLinks and kMostLinkBytes.
  bool KeepLinks(uint64_t epoch, Links links);
  void DropOldestLinks();
  // Nothing more comes to it.
  bool IsOver(size_t level, const Run& run) const;
  std::string KeyOf(size_t level, const Run& run) const;
  std::string KeyOfLinks(uint64_t epoch) const;
  std::string RowOf(size_t level, const Run& run) const;
  absl::Status LoadRow(const StoreRow& row);
  absl::Status LoadRun(size_t level, uint64_t epoch, int64_t first, const StoreRow& row);
  // In tens of seconds since 1970: what is older is read at this level, and what is newer at the finer one.
  int64_t Boundary(size_t level) const;
  std::vector<Point> Collect(const ValueOf& value_of, std::optional<absl::Duration> latest) const;
  // In tens of seconds, the first two since 1970: the oldest point of any level; the beginning of so long a time before
  // the last point; and the width of points for a time that begins then.
  int64_t Oldest() const;
  int64_t SinceOf(absl::Duration latest) const;
  int64_t WidthFor(int64_t since) const;
  // By epoch that has points, the ranks that these were there.
  using RanksByEpoch = std::map<uint64_t, std::vector<uint32_t>>;
  RanksByEpoch Trace(uint64_t epoch, std::vector<uint32_t> ranks) const;

  const std::string rows_;
  MemoryShare memory_;
  std::array<int64_t, kLevels.size()> bytes_ = {};
  std::array<Runs, kLevels.size()> levels_;
  // By level, in tens of seconds since 1970: what is older is in it. For the finest
  // level: the end of the last point.
  std::array<int64_t, kLevels.size()> folded_ = {};
  std::map<uint64_t, Links> links_;
  int64_t link_bytes_ = 0;
  uint64_t epoch_ = 0;
  // How far the time of the points is ahead of now, from the first epoch of this life on.
  std::optional<absl::Duration> ahead_;
  // Keys of rows that are to go, and of those that are not in memory.
  std::deque<std::string> gone_;
  std::vector<std::string> left_out_;
  bool is_due_ = false;
  bool is_hasty_ = false;
};

using RollUpHistory = BasicRollUpHistory<RollUp>;
using NetworkHistory = BasicRollUpHistory<NetworkRollUp>;

// The histories of one job. Both begin an epoch at the same time, and are told of the same ten seconds.
struct MeasuredHistory {
  // The keys of the hosts' rows have it behind the job's `rows`.
  static constexpr char kHosts[] = "net/";

  MeasuredHistory(const std::string& rows, MemoryBudget* budget) : ranks(rows, budget), hosts(rows + kHosts, budget) {}
  // See BasicRollUpHistory.
  void Begin(uint64_t epoch, std::vector<int32_t> old_ranks, std::vector<int32_t> old_hosts, absl::Time now,
             absl::Duration wall_ahead) {
    ranks.Begin(epoch, std::move(old_ranks), now, wall_ahead);
    hosts.Begin(epoch, std::move(old_hosts), now, wall_ahead);
  }
  void Hasten() {
    ranks.Hasten();
    hosts.Hasten();
  }

  RollUpHistory ranks;
  NetworkHistory hosts;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_ROLL_UP_HISTORY_H_
