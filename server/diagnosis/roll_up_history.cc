#include "server/diagnosis/roll_up_history.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace farandole {
namespace {

// Of one commit, which takes 128 operations and 1 MiB: a row of the job's report may be in it, too.
constexpr size_t kMostRows = 100;
constexpr size_t kMostRowsBytes = 512 << 10;
// So that several rows fit into a commit.
constexpr int64_t kMostRowBytes = 128 << 10;
// A point of more ranks would be too much for a commit.
constexpr size_t kMostRanks = 48 << 10;
constexpr char kLinks[] = "links";

// A row begins with it.
struct Head {
  uint32_t version = 1;
  uint32_t size = 0;
  // Older values are in the row, or in one before: in tens of seconds since 1970.
  int64_t until = 0;
};

absl::Status Unreadable(const StoreRow& row) {
  return absl::DataLossError(absl::StrCat("row ", row.key, " is not of what ranks have done"));
}

}  // namespace

template <typename Value>
int64_t BasicRollUpHistory<Value>::bytes() const {
  int64_t all = 0;
  for (const int64_t of_level : bytes_) all += of_level;
  return all + link_bytes_;
}

template <typename Value>
void BasicRollUpHistory<Value>::Begin(uint64_t epoch, std::vector<int32_t> old_ranks, absl::Time now,
                                      absl::Duration wall_ahead) {
  if (!ahead_.has_value()) {
    ahead_ = wall_ahead;
    const int64_t number = (now + *ahead_ - absl::UnixEpoch()) / kFinest;
    // The wall clock was set back while the coordinator was away. (The ten seconds in which it ended are over for it.)
    if (number + 1 < folded_[0]) *ahead_ += (folded_[0] - number) * kFinest;
  }
  if (epoch == epoch_) return;
  epoch_ = epoch;
  if (std::all_of(old_ranks.begin(), old_ranks.end(), [](int32_t rank) { return rank < 0; })) return;
  if (KeepLinks(epoch, {std::move(old_ranks), false})) is_due_ = true;
}

template <typename Value>
int64_t BasicRollUpHistory<Value>::NumberAt(absl::Time now) const {
  return std::max<int64_t>(folded_[0], (now + *ahead_ - absl::UnixEpoch()) / kFinest);
}

template <typename Value>
absl::Time BasicRollUpHistory<Value>::TimeOf(int64_t number) const {
  return absl::UnixEpoch() + number * kFinest - *ahead_;
}

template <typename Value>
int64_t BasicRollUpHistory<Value>::PointsOfRow(size_t level, size_t size) {
  return std::clamp<int64_t>(kMostRowBytes / (static_cast<int64_t>(size) * kValueBytes), 1, kLevels[level].in_row);
}

template <typename Value>
void BasicRollUpHistory<Value>::Add(int64_t number, absl::Span<const Value> ranks) {
  if (ranks.empty() || ranks.size() > kMostRanks || number < folded_[0]) return;
  std::vector<Value> values(ranks.begin(), ranks.end());
  typename Value::Together whole;
  for (const Value& rank : ranks) whole.Add(rank);
  values.push_back(whole.Value());
  MakeRoom(static_cast<int64_t>(kLevels.size() * (sizeof(Run) + values.size() * sizeof(Value))));
  AddPoint(0, epoch_, number, values);
  folded_[0] = number + 1;
  FoldUp();
  Trim();
  if (!levels_[0].empty() && IsOver(0, levels_[0].back())) is_due_ = true;
}

template <typename Value>
void BasicRollUpHistory<Value>::AddPoint(size_t level, uint64_t epoch, int64_t number, absl::Span<const Value> values) {
  Runs& runs = levels_[level];
  const auto goes_on = [&](const Run& run) {
    return run.epoch == epoch && run.size == values.size() && run.first <= number &&
           number < run.first + PointsOfRow(level, run.size);
  };
  const bool is_new = runs.empty() || !goes_on(runs.back());
  const int64_t more = is_new ? 1 : std::max<int64_t>(0, number + 1 - runs.back().end());
  const int64_t of_run = is_new ? static_cast<int64_t>(sizeof(Run)) : 0;
  if (!TakeRoom(level, of_run + more * static_cast<int64_t>(values.size()) * kValueBytes)) return;
  if (is_new) {
    // Epochs that follow each other quickly would leave rows of one point each with room for all.
    if (!runs.empty()) runs.back().values.shrink_to_fit();
    Run& run = runs.emplace_back();
    run.epoch = epoch;
    run.first = number;
    run.size = values.size();
    run.values.reserve(static_cast<size_t>(PointsOfRow(level, run.size)) * run.size);
  }
  Run& run = runs.back();
  run.values.resize(run.values.size() + static_cast<size_t>(more) * run.size);
  run.is_dirty = true;
  Value* const point = &run.values[static_cast<size_t>(number - run.first) * run.size];
  for (size_t rank = 0; rank < run.size; ++rank) point[rank].Add(values[rank]);
}

template <typename Value>
void BasicRollUpHistory<Value>::FoldUp() {
  for (size_t level = 1; level < kLevels.size(); ++level) {
    const int64_t width = kLevels[level - 1].width;
    const int64_t until = folded_[level - 1] / width * width;
    const int64_t since = folded_[level];
    if (until <= since) continue;
    const Runs& finer = levels_[level - 1];
    size_t at = finer.size();
    while (at > 0 && finer[at - 1].end() * width > since) --at;
    for (; at < finer.size(); ++at) {
      const Run& run = finer[at];
      const int64_t end = std::min(run.end(), until / width);
      for (int64_t number = std::max(run.first, since / width); number < end; ++number)
        AddPoint(level, run.epoch, number * width / kLevels[level].width, {run.point(number - run.first), run.size});
    }
    folded_[level] = until;
  }
}

template <typename Value>
void BasicRollUpHistory<Value>::Trim() {
  bool is_less = false;
  for (size_t level = 0; level < kLevels.size(); ++level) {
    Runs& runs = levels_[level];
    const int64_t oldest = folded_[0] / kLevels[level].width - kLevels[level].kept;
    while (runs.size() > 1 &&
           (runs.front().end() <= oldest || bytes_[level] > kMostBytes / static_cast<int64_t>(kLevels.size()))) {
      DropOldest(level);
      is_less = true;
    }
  }
  if (is_less) ForgetEpochs();
}

template <typename Value>
void BasicRollUpHistory<Value>::DropOldest(size_t level) {
  const Run& run = levels_[level].front();
  if (run.is_kept) gone_.push_back(KeyOf(level, run));
  memory_.Return(run.bytes());
  bytes_[level] -= run.bytes();
  levels_[level].pop_front();
}

template <typename Value>
void BasicRollUpHistory<Value>::ForgetEpochs() {
  uint64_t oldest = epoch_;
  for (const Runs& runs : levels_) {
    if (!runs.empty()) oldest = std::min(oldest, runs.front().epoch);
  }
  while (!links_.empty() && links_.begin()->first <= oldest) DropOldestLinks();
}

template <typename Value>
bool BasicRollUpHistory<Value>::KeepLinks(uint64_t epoch, Links links) {
  const int64_t bytes = links.bytes();
  if (!memory_.Take(bytes)) return false;
  link_bytes_ += bytes;
  links_[epoch] = std::move(links);
  while (links_.size() > kMostLinks || link_bytes_ > kMostLinkBytes) {
    DropOldestLinks();
    is_due_ = true;
  }
  return true;
}

template <typename Value>
void BasicRollUpHistory<Value>::DropOldestLinks() {
  const auto oldest = links_.begin();
  if (oldest->second.is_kept) gone_.push_back(KeyOfLinks(oldest->first));
  memory_.Return(oldest->second.bytes());
  link_bytes_ -= oldest->second.bytes();
  links_.erase(oldest);
}

template <typename Value>
void BasicRollUpHistory<Value>::MakeRoom(int64_t bytes) {
  while (!memory_.Take(bytes)) {
    const size_t largest = static_cast<size_t>(std::max_element(bytes_.begin(), bytes_.end()) - bytes_.begin());
    if (levels_[largest].size() < 2) return;
    DropOldest(largest);
  }
  memory_.Return(bytes);
}

template <typename Value>
bool BasicRollUpHistory<Value>::TakeRoom(size_t level, int64_t bytes) {
  if (!memory_.Take(bytes)) return false;
  bytes_[level] += bytes;
  return true;
}

template <typename Value>
bool BasicRollUpHistory<Value>::IsOver(size_t level, const Run& run) const {
  if (&run != &levels_[level].back()) return true;
  return IsFull(level, run) && folded_[level] >= run.end() * kLevels[level].width;
}

template <typename Value>
auto BasicRollUpHistory<Value>::Trace(uint64_t epoch, std::vector<uint32_t> ranks) const -> RanksByEpoch {
  std::set<uint64_t> epochs;
  for (const Runs& runs : levels_) {
    for (const Run& run : runs) epochs.insert(run.epoch);
  }
  RanksByEpoch places;
  for (; !ranks.empty() && !epochs.empty() && epoch >= *epochs.begin(); --epoch) {
    if (epochs.count(epoch) > 0) places[epoch] = ranks;
    const auto links = links_.find(epoch);
    if (links == links_.end()) break;
    const std::vector<int32_t>& old_ranks = links->second.old_ranks;
    const auto end = std::remove_if(ranks.begin(), ranks.end(), [&old_ranks](uint32_t rank) {
      return rank >= old_ranks.size() || old_ranks[rank] < 0;
    });
    ranks.erase(end, ranks.end());
    for (uint32_t& rank : ranks) rank = static_cast<uint32_t>(old_ranks[rank]);
  }
  return places;
}

template <typename Value>
int64_t BasicRollUpHistory<Value>::Boundary(size_t level) const {
  if (level == kLevels.size() || levels_[level].empty()) return std::numeric_limits<int64_t>::min();
  if (levels_[level - 1].empty()) return std::numeric_limits<int64_t>::max();
  const int64_t width = kLevels[level].width;
  const int64_t finer = levels_[level - 1].front().first * kLevels[level - 1].width;
  const int64_t begin = finer / width * width;
  // The finer one has all.
  if (levels_[level].front().first * width >= begin) return begin;
  return begin == finer ? begin : begin + width;
}

template <typename Value>
int64_t BasicRollUpHistory<Value>::Oldest() const {
  int64_t oldest = std::numeric_limits<int64_t>::max();
  for (size_t level = 0; level < kLevels.size(); ++level) {
    if (!levels_[level].empty()) oldest = std::min(oldest, levels_[level].front().first * kLevels[level].width);
  }
  return oldest;
}

template <typename Value>
int64_t BasicRollUpHistory<Value>::WidthFor(int64_t since) const {
  for (const Level& level : kLevels) {
    if (folded_[0] - since <= kMostRead * level.width) return level.width;
  }
  return kLevels.back().width;
}

template <typename Value>
int64_t BasicRollUpHistory<Value>::SinceOf(absl::Duration latest) const {
  return std::max(std::min(Oldest(), folded_[0]), folded_[0] - latest / kFinest);
}

template <typename Value>
auto BasicRollUpHistory<Value>::Collect(const ValueOf& value_of, std::optional<absl::Duration> latest) const
    -> std::vector<Point> {
  int64_t since = latest.has_value() ? SinceOf(*latest) : Oldest();
  const int64_t least_width = latest.has_value() ? WidthFor(since) : kLevels[0].width;
  since = since / least_width * least_width;
  std::vector<Point> points;
  int64_t newest = std::numeric_limits<int64_t>::max();
  for (size_t level = 0; level < kLevels.size(); ++level) {
    const int64_t of_level = kLevels[level].width;
    const int64_t width = std::max(of_level, least_width);
    const int64_t oldest = std::min(newest, Boundary(level + 1));
    std::vector<Point> older;
    for (const Run& run : levels_[level]) {
      for (int64_t number = run.first; number < run.end(); ++number) {
        const int64_t begin = number * of_level;
        if (begin < oldest || begin >= newest || begin + of_level <= since) continue;
        const Value value = value_of(run, number - run.first);
        if (value.tenths == 0) continue;
        const int64_t point = begin / width * width;
        if (older.empty() || older.back().number != point)
          older.push_back({point, absl::UnixEpoch() + point * kFinest, width * kFinest, Value()});
        older.back().value.Add(value);
      }
    }
    newest = oldest;
    if (!older.empty() && !points.empty() && older.back().number == points.front().number) {
      older.back().value.Add(points.front().value);
      points.erase(points.begin());
    }
    points.insert(points.begin(), older.begin(), older.end());
  }
  return points;
}

template <typename Value>
auto BasicRollUpHistory<Value>::Read(uint64_t epoch, uint32_t rank, std::optional<absl::Duration> latest) const
    -> std::vector<Point> {
  if (rank == kWholeJob) {
    return Collect([](const Run& run, int64_t at) { return run.point(at)[run.size - 1]; }, latest);
  }
  const RanksByEpoch places = Trace(epoch, {rank});
  const auto value_of = [&places](const Run& run, int64_t at) {
    const auto found = places.find(run.epoch);
    return found == places.end() || found->second[0] + 1 >= run.size ? Value() : run.point(at)[found->second[0]];
  };
  return Collect(value_of, latest);
}

template <typename Value>
auto BasicRollUpHistory<Value>::ReadMean(uint64_t epoch, absl::Span<const uint32_t> ranks,
                                         std::optional<absl::Duration> latest) const -> std::vector<Point> {
  const RanksByEpoch places = Trace(epoch, {ranks.begin(), ranks.end()});
  const auto value_of = [&places](const Run& run, int64_t at) {
    typename Value::Together mean;
    const auto found = places.find(run.epoch);
    if (found == places.end()) return mean.Value();
    for (const uint32_t place : found->second) {
      if (place + 1 < run.size) mean.Add(run.point(at)[place]);
    }
    return mean.Value();
  };
  return Collect(value_of, latest);
}

template <typename Value>
std::vector<std::pair<int64_t, Value>> BasicRollUpHistory<Value>::ReadFinest(uint32_t rank) const {
  std::vector<std::pair<int64_t, Value>> points;
  for (const Run& run : levels_[0]) {
    if (run.epoch != epoch_ || rank + 1 >= run.size) continue;
    for (int64_t at = 0; at < run.points(); ++at) {
      if (run.point(at)[rank].tenths > 0) points.emplace_back(run.first + at, run.point(at)[rank]);
    }
  }
  return points;
}

template <typename Value>
std::string BasicRollUpHistory<Value>::KeyOf(size_t level, const Run& run) const {
  return absl::StrFormat("%s%d/%012d/%012d", rows_, level, run.epoch, run.first);
}

template <typename Value>
std::string BasicRollUpHistory<Value>::KeyOfLinks(uint64_t epoch) const {
  return absl::StrFormat("%s%s/%012d", rows_, kLinks, epoch);
}

template <typename Value>
std::string BasicRollUpHistory<Value>::RowOf(size_t level, const Run& run) const {
  Head head;
  head.size = static_cast<uint32_t>(run.size);
  head.until = std::min(folded_[level], run.end() * kLevels[level].width);
  std::string row(sizeof(head) + run.values.size() * sizeof(Value), '\0');
  std::memcpy(row.data(), &head, sizeof(head));
  std::memcpy(row.data() + sizeof(head), run.values.data(), run.values.size() * sizeof(Value));
  return row;
}

template <typename Value>
bool BasicRollUpHistory<Value>::Save(StoreBatch* batch) {
  size_t rows = 0;
  size_t bytes = 0;
  for (; !gone_.empty() && rows < kMostRows; ++rows, gone_.pop_front()) batch->deletes.push_back(gone_.front());
  const auto has_room = [&rows, &bytes](size_t more) { return rows < kMostRows && bytes + more <= kMostRowsBytes; };
  const auto put = [&](std::string key, std::string value) {
    bytes += key.size() + value.size();
    ++rows;
    batch->puts.push_back({std::move(key), std::move(value)});
  };
  for (auto& [epoch, links] : links_) {
    const size_t size = links.old_ranks.size() * sizeof(int32_t);
    if (links.is_kept) continue;
    if (!has_room(rows == 0 ? 0 : size)) return false;
    put(KeyOfLinks(epoch), std::string(reinterpret_cast<const char*>(links.old_ranks.data()), size));
    links.is_kept = true;
  }
  for (size_t level = 0; level < kLevels.size(); ++level) {
    for (Run& run : levels_[level]) {
      if (!run.is_dirty || !(is_hasty_ || IsOver(level, run))) continue;
      // The first one fits in any case.
      if (!has_room(rows == 0 ? 0 : static_cast<size_t>(run.bytes()))) return false;
      put(KeyOf(level, run), RowOf(level, run));
      run.is_dirty = false;
      run.is_kept = true;
    }
  }
  is_hasty_ = false;
  is_due_ = !gone_.empty();
  return !is_due_;
}

template <typename Value>
absl::Status BasicRollUpHistory<Value>::Load(const StoreRow& row) {
  const absl::Status status = LoadRow(row);
  if (!status.ok()) gone_.push_back(row.key);
  return status;
}

template <typename Value>
absl::Status BasicRollUpHistory<Value>::LoadRow(const StoreRow& row) {
  const std::vector<std::string> parts = absl::StrSplit(absl::StripPrefix(row.key, rows_), '/');
  int level = -1;
  uint64_t epoch = 0;
  if (parts.size() == 2 && parts[0] == kLinks && absl::SimpleAtoi(parts[1], &epoch)) {
    if (row.value.empty() || row.value.size() % sizeof(int32_t) != 0) return Unreadable(row);
    std::vector<int32_t> old_ranks(row.value.size() / sizeof(int32_t));
    std::memcpy(old_ranks.data(), row.value.data(), row.value.size());
    if (!KeepLinks(epoch, {std::move(old_ranks), true})) left_out_.push_back(row.key);
    epoch_ = std::max(epoch_, epoch);
    return absl::OkStatus();
  }
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &level)) return Unreadable(row);
  if (level < 0 || level >= static_cast<int>(kLevels.size())) return Unreadable(row);
  int64_t first = 0;
  if (!absl::SimpleAtoi(parts[1], &epoch) || !absl::SimpleAtoi(parts[2], &first)) return Unreadable(row);
  return LoadRun(static_cast<size_t>(level), epoch, first, row);
}

template <typename Value>
absl::Status BasicRollUpHistory<Value>::LoadRun(size_t level, uint64_t epoch, int64_t first, const StoreRow& row) {
  Run run;
  run.epoch = epoch;
  run.first = first;
  Head head;
  if (row.value.size() < sizeof(head)) return Unreadable(row);
  std::memcpy(&head, row.value.data(), sizeof(head));
  const size_t bytes = row.value.size() - sizeof(head);
  const bool is_whole = head.size > 0 && bytes > 0 && bytes % (head.size * sizeof(Value)) == 0;
  if (head.version != 1 || !is_whole) return Unreadable(row);
  run.size = head.size;
  run.values.resize(bytes / sizeof(Value));
  std::memcpy(run.values.data(), row.value.data() + sizeof(head), bytes);
  run.is_kept = true;
  if (!levels_[level].empty() && levels_[level].back().epoch > run.epoch) return Unreadable(row);
  folded_[level] = std::max(folded_[level], head.until);
  epoch_ = std::max(epoch_, run.epoch);
  if (!TakeRoom(level, run.bytes())) return left_out_.push_back(row.key), absl::OkStatus();
  levels_[level].push_back(std::move(run));
  return absl::OkStatus();
}

template <typename Value>
void BasicRollUpHistory<Value>::Clear() {
  for (size_t level = 0; level < kLevels.size(); ++level) {
    while (!levels_[level].empty()) DropOldest(level);
  }
  while (!links_.empty()) DropOldestLinks();
  gone_.insert(gone_.end(), left_out_.begin(), left_out_.end());
  left_out_.clear();
  is_due_ = is_hasty_ = true;
}

template class BasicRollUpHistory<RollUp>;
template class BasicRollUpHistory<NetworkRollUp>;

}  // namespace farandole
