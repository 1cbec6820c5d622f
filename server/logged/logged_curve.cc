#include "server/logged/logged_curve.h"

#include <algorithm>

namespace farandole {
namespace {

// Steps are then in four ranges at most, so that it is never reached.
constexpr int64_t kMostWidth = int64_t{1} << 62;
// Of older steps, when they are put together: so that this is not to be done at each step.
constexpr size_t kMostRanges = 3 * LoggedCurve::kLatest / 4;

int64_t RangeOf(int64_t step, int64_t width) { return step >= 0 ? step / width : -1 - (-1 - step) / width; }

// A NaN makes the mean one, and leaves the bounds as they are.
void Merge(const LoggedPoint& more, LoggedPoint* point) {
  const auto count = static_cast<double>(point->count + more.count);
  point->mean += (more.mean - point->mean) * (static_cast<double>(more.count) / count);
  point->least = more.least < point->least ? more.least : point->least;
  point->greatest = more.greatest > point->greatest ? more.greatest : point->greatest;
  point->count += more.count;
  point->first = std::min(point->first, more.first);
  point->last = std::max(point->last, more.last);
  point->at_unix_ms = std::max(point->at_unix_ms, more.at_unix_ms);
  point->epoch = std::max(point->epoch, more.epoch);
}

// Puts together the points of the same range, among the first `old`; gives the number that is left of them.
size_t Gather(std::vector<LoggedPoint>* points, size_t old, int64_t width) {
  size_t kept = 0;
  for (size_t i = 0; i < old; ++i) {
    LoggedPoint& point = (*points)[i];
    if (kept > 0 && RangeOf((*points)[kept - 1].first, width) == RangeOf(point.first, width)) {
      Merge(point, &(*points)[kept - 1]);
    } else {
      (*points)[kept++] = point;
    }
  }
  points->erase(points->begin() + static_cast<std::ptrdiff_t>(kept),
                points->begin() + static_cast<std::ptrdiff_t>(old));
  return kept;
}

void AddColumns(const LoggedPoint& point, v1::LoggedSeries* series) {
  series->add_first_step(point.first);
  series->add_last_step(point.last);
  series->add_mean(point.mean);
  series->add_least(point.least);
  series->add_greatest(point.greatest);
  series->add_count(point.count);
  series->add_at_unix_ms(point.at_unix_ms);
  series->add_epoch(point.epoch);
}

}  // namespace

// Whether a step belongs to a point: to its steps, or among the older ones to its range.
bool LoggedCurve::IsOfRange(const LoggedPoint& point, size_t at, int64_t step) const {
  if (point.first <= step && step <= point.last) return true;
  return at < LatestBegin() && RangeOf(point.first, width_) == RangeOf(step, width_);
}

bool LoggedCurve::Add(int64_t step, double value, uint64_t epoch, int64_t at_unix_ms) {
  if (epoch < epoch_ && step >= epoch_first_) return false;
  if (epoch > epoch_ || points_.empty()) epoch_first_ = step;
  epoch_ = std::max(epoch_, epoch);
  if (epoch == epoch_) epoch_first_ = std::min(epoch_first_, step);
  const LoggedPoint added{step, step, value, value, value, 1, at_unix_ms, epoch};
  const auto behind = [](const LoggedPoint& point, int64_t wanted) { return point.last < wanted; };
  auto at = static_cast<size_t>(std::lower_bound(points_.begin(), points_.end(), step, behind) - points_.begin());
  if (at > 0 && IsOfRange(points_[at - 1], at - 1, step)) --at;
  TakeOver(at, epoch);
  if (at < points_.size() && IsOfRange(points_[at], at, step)) {
    Merge(added, &points_[at]);
    dirty_ |= 1u << at / kChunk;
    return true;
  }
  points_.insert(points_.begin() + static_cast<std::ptrdiff_t>(at), added);
  MarkFrom(at);
  if (points_.size() > kMostPoints) Shorten();
  return true;
}

void LoggedCurve::TakeOver(size_t from, uint64_t epoch) {
  const auto begin = points_.begin() + static_cast<std::ptrdiff_t>(from);
  const auto end =
      std::remove_if(begin, points_.end(), [epoch](const LoggedPoint& point) { return point.epoch < epoch; });
  if (end == points_.end()) return;
  points_.erase(end, points_.end());
  MarkFrom(from);
}

void LoggedCurve::Shorten() {
  size_t old = Gather(&points_, points_.size() - kLatest, width_);
  while (old > kMostRanges) {
    width_ *= 2;
    old = Gather(&points_, old, width_);
  }
  MarkFrom(0);
}

void LoggedCurve::MarkFrom(size_t point) {
  for (size_t chunk = point / kChunk; chunk < Chunks(); ++chunk) dirty_ |= 1u << chunk;
}

void LoggedCurve::MarkKept() {
  dirty_ = 0;
  kept_chunks_ = Chunks();
}

v1::LoggedRecord LoggedCurve::ShowChunk(size_t chunk) const {
  v1::LoggedRecord record;
  record.set_width(static_cast<uint64_t>(width_));
  for (size_t i = chunk * kChunk; i < std::min(points_.size(), (chunk + 1) * kChunk); ++i)
    AddColumns(points_[i], record.mutable_points());
  return record;
}

void LoggedCurve::Show(v1::LoggedSeries* series) const {
  for (const LoggedPoint& point : points_) AddColumns(point, series);
}

bool LoggedCurve::Load(const v1::LoggedRecord& record) {
  const v1::LoggedSeries& from = record.points();
  const int count = from.first_step_size();
  for (const int size : {from.last_step_size(), from.mean_size(), from.least_size(), from.greatest_size(),
                         from.count_size(), from.at_unix_ms_size(), from.epoch_size()}) {
    if (size != count) return false;
  }
  width_ = static_cast<int64_t>(record.width());
  if (width_ < 1 || width_ > kMostWidth || points_.size() + static_cast<size_t>(count) > kMostPoints) return false;
  for (int i = 0; i < count; ++i) {
    const LoggedPoint point{from.first_step(i), from.last_step(i), from.mean(i),       from.least(i),
                            from.greatest(i),   from.count(i),     from.at_unix_ms(i), from.epoch(i)};
    if (point.count == 0 || point.last < point.first || (!points_.empty() && point.first <= points_.back().last))
      return false;
    if (point.epoch > epoch_ || points_.empty()) epoch_first_ = point.first;
    epoch_ = std::max(epoch_, point.epoch);
    points_.push_back(point);
  }
  kept_chunks_ = Chunks();
  return true;
}

}  // namespace farandole
