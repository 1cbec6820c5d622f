#include "server/logged/logged_values.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace farandole {
namespace {

constexpr int64_t kAverage = -1;
// Besides its points.
constexpr int64_t kCurveBytes = 256;
// Of one commit, which takes 128 operations and 1 MiB: other rows of the job are in it, too.
constexpr size_t kMostRows = 100;
constexpr size_t kMostRowBytes = 512 << 10;
constexpr char kStands[] = "stands";

absl::Status Unreadable(const StoreRow& row) {
  return absl::DataLossError(absl::StrCat("row ", row.key, " is not of what programs have logged"));
}

uint64_t SumOf(const google::protobuf::RepeatedField<uint64_t>& column) {
  uint64_t sum = 0;
  for (const uint64_t value : column) sum += value;
  return sum;
}

}  // namespace

LoggedValues::LoggedValues(std::string tenant, std::string job, std::shared_ptr<TenantBudgets> budgets)
    : tenant_(std::move(tenant)), job_(std::move(job)), budgets_(std::move(budgets)) {}

LoggedValues::~LoggedValues() { budgets_->Return(tenant_, bytes_); }

void LoggedValues::BeginEpoch(uint64_t epoch, uint32_t size) {
  stands_.set_earlier_dropped(stands_.earlier_dropped() + SumOf(stands_.dropped()));
  stands_.set_epoch(epoch);
  stands_.mutable_taken()->Clear();
  stands_.mutable_taken()->Resize(static_cast<int>(size), 0);
  stands_.mutable_dropped()->Clear();
  stands_.mutable_dropped()->Resize(static_cast<int>(size), 0);
}

void LoggedValues::Take(uint32_t rank, uint32_t size, uint64_t epoch, const v1::LoggedPoints& points,
                        int64_t now_unix_ms) {
  if (epoch < stands_.epoch()) return;
  if (epoch > stands_.epoch() || stands_.taken_size() != static_cast<int>(size)) BeginEpoch(epoch, size);
  const int at = static_cast<int>(rank);
  int64_t step = 0;
  for (int i = 0; i < points.name_size(); ++i) {
    // As the worker made the differences: they may wrap round.
    step = static_cast<int64_t>(static_cast<uint64_t>(step) + static_cast<uint64_t>(points.step(i)));
    const uint64_t number = points.first() + static_cast<uint64_t>(i);
    if (number <= stands_.taken(at)) continue;
    stands_.set_taken(at, number);
    const int name = static_cast<int>(points.name(i));
    const int64_t whose = points.by_rank(name) ? static_cast<int64_t>(rank) : kAverage;
    Add({points.names(name), whose}, step, points.value(i), std::min(points.epoch(), epoch),
        now_unix_ms - static_cast<int64_t>(points.age_ms(i)));
    is_dirty_ = true;
  }
  if (points.dropped() == stands_.dropped(at)) return;
  stands_.set_dropped(at, points.dropped());
  is_dirty_ = true;
}

void LoggedValues::Add(const CurveKey& key, int64_t step, double value, uint64_t epoch, int64_t at_unix_ms) {
  auto found = curves_.find(key);
  if (found == curves_.end()) {
    const int64_t bytes = kCurveBytes + static_cast<int64_t>(key.first.size());
    if (!HasRoom(bytes, key)) return;
    found = curves_.emplace(key, Entry()).first;
    found->second.number = ++last_number_;
    found->second.bytes = bytes;
    numbers_[last_number_] = key;
  }
  if (!HasRoom(kPointBytes, key)) return;
  Entry& entry = found->second;
  const auto before = static_cast<int64_t>(entry.curve.points().size());
  entry.curve.Add(step, value, epoch, at_unix_ms);
  const int64_t more = (static_cast<int64_t>(entry.curve.points().size()) - before) * kPointBytes;
  entry.bytes += more;
  bytes_ -= kPointBytes - more;
  budgets_->Return(tenant_, kPointBytes - more);
}

bool LoggedValues::HasRoom(int64_t bytes, const CurveKey& key) {
  if (bytes_ + bytes > kMostBytes) return Refuse(key, absl::StrCat("job ", job_), kMostBytes), false;
  if (!budgets_->Take(tenant_, bytes))
    return Refuse(key, absl::StrCat("tenant ", tenant_, " in all its jobs"), budgets_->bytes()), false;
  bytes_ += bytes;
  return true;
}

void LoggedValues::Refuse(const CurveKey& key, const std::string& whose, int64_t most) {
  stands_.set_refused(stands_.refused() + 1);
  if (!stands_.bound().empty()) return;
  const std::string of_rank = key.second == kAverage ? "" : absl::StrCat(" of rank ", key.second);
  stands_.set_bound(
      absl::StrFormat("%s has logged %d KiB, which is the most that is kept: points of '%s'%s are the first "
                      "for which there is no room",
                      whose, most >> 10, key.first, of_rank));
  news_ = stands_.bound();
}

v1::ListLoggedResponse LoggedValues::List(const std::vector<std::string>& names) const {
  const absl::flat_hash_set<std::string> wanted(names.begin(), names.end());
  v1::ListLoggedResponse response;
  for (const auto& [key, entry] : curves_) {
    if (!wanted.empty() && !wanted.contains(key.first)) continue;
    v1::LoggedSeries* series = response.add_series();
    series->set_name(key.first);
    if (key.second != kAverage) series->set_rank(static_cast<uint32_t>(key.second));
    entry.curve.Show(series);
  }
  response.set_dropped(stands_.earlier_dropped() + SumOf(stands_.dropped()));
  response.set_refused(stands_.refused());
  response.set_bound(stands_.bound());
  return response;
}

std::string LoggedValues::RowKey(int number, size_t chunk) const {
  return absl::StrFormat("logged/%s/%s/%05d/%02d", tenant_, job_, number, chunk);
}

bool LoggedValues::Save(StoreBatch* batch) {
  size_t rows = 0;
  size_t bytes = 0;
  for (auto& [key, entry] : curves_) {
    LoggedCurve& curve = entry.curve;
    if (!curve.IsDirty()) continue;
    if (rows + std::max(curve.Chunks(), curve.kept_chunks()) > kMostRows || bytes > kMostRowBytes) return false;
    for (size_t chunk = 0; chunk < curve.Chunks(); ++chunk) {
      if (!curve.IsDirty(chunk)) continue;
      v1::LoggedRecord record = curve.ShowChunk(chunk);
      record.mutable_points()->set_name(key.first);
      if (key.second != kAverage) record.mutable_points()->set_rank(static_cast<uint32_t>(key.second));
      batch->puts.push_back({RowKey(entry.number, chunk), record.SerializeAsString()});
      bytes += batch->puts.back().value.size();
      ++rows;
    }
    for (size_t chunk = curve.Chunks(); chunk < curve.kept_chunks(); ++chunk, ++rows)
      batch->deletes.push_back(RowKey(entry.number, chunk));
    curve.MarkKept();
  }
  batch->puts.push_back({absl::StrCat("logged/", tenant_, "/", job_, "/", kStands), stands_.SerializeAsString()});
  is_dirty_ = false;
  return true;
}

absl::Status LoggedValues::Load(const StoreRow& row) {
  const std::vector<std::string> parts = absl::StrSplit(row.key, '/');
  if (parts.size() == 4 && parts[3] == kStands)
    return stands_.ParseFromString(row.value) ? absl::OkStatus() : Unreadable(row);
  v1::LoggedRecord record;
  int number = 0;
  if (parts.size() != 5 || !absl::SimpleAtoi(parts[3], &number) || !record.ParseFromString(row.value))
    return Unreadable(row);
  const CurveKey key = {record.points().name(), record.points().has_rank() ? record.points().rank() : kAverage};
  if (const auto known = numbers_.find(number); known != numbers_.end() && known->second != key) return Unreadable(row);
  Entry& entry = curves_[key];
  if (entry.number == 0) entry.bytes = kCurveBytes + static_cast<int64_t>(key.first.size());
  const int64_t before = entry.number == 0 ? 0 : entry.bytes;
  entry.number = number;
  numbers_[number] = key;
  last_number_ = std::max(last_number_, number);
  const bool is_sound = entry.curve.Load(record);
  entry.bytes = kCurveBytes + static_cast<int64_t>(key.first.size() + entry.curve.points().size() * kPointBytes);
  bytes_ += entry.bytes - before;
  budgets_->Count(tenant_, entry.bytes - before);
  return is_sound ? absl::OkStatus() : Unreadable(row);
}

}  // namespace farandole
