#ifndef FARANDOLE_SERVER_LOGGED_LOGGED_CURVE_H_
#define FARANDOLE_SERVER_LOGGED_LOGGED_CURVE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "farandole/v1/logged.pb.h"

namespace farandole {

// The values that were logged for a step, or for a range of steps that were put together.
struct LoggedPoint {
  int64_t first = 0;
  int64_t last = 0;
  double mean = 0;
  double least = 0;
  double greatest = 0;
  uint64_t count = 0;
  int64_t at_unix_ms = 0;
  uint64_t epoch = 0;
};

// One curve of a job: its latest 256 steps as they are, and the steps before them put together by ranges of equal
// width, as wide as it takes for 256 of them to be enough. Values of one step and epoch are averaged. A later epoch
// takes its steps over: its first point removes what earlier epochs have at that step and behind it, as a program that
// goes back to its last commit does those steps again.
class LoggedCurve {
 public:
  static constexpr size_t kLatest = 256;
  static constexpr size_t kMostPoints = 2 * kLatest;
  static constexpr size_t kChunk = 64;

  // False: it is of an earlier epoch than what is known of these steps.
  bool Add(int64_t step, double value, uint64_t epoch, int64_t at_unix_ms);
  const std::vector<LoggedPoint>& points() const { return points_; }

  // Chunks of `kChunk` points that differ from what was kept last; and the number of chunks that were kept then.
  bool IsDirty() const { return dirty_ != 0 || Chunks() != kept_chunks_; }
  bool IsDirty(size_t chunk) const { return (dirty_ >> chunk & 1) != 0; }
  size_t Chunks() const { return (points_.size() + kChunk - 1) / kChunk; }
  size_t kept_chunks() const { return kept_chunks_; }
  void MarkKept();
  // The points of a chunk, or all of them, as columns of `series`.
  v1::LoggedRecord ShowChunk(size_t chunk) const;
  void Show(v1::LoggedSeries* series) const;
  // Appends what an earlier life has kept; chunks in their order. False: it makes no sense.
  bool Load(const v1::LoggedRecord& record);

 private:
  size_t LatestBegin() const { return points_.size() < kLatest ? 0 : points_.size() - kLatest; }
  bool IsOfRange(const LoggedPoint& point, size_t at, int64_t step) const;
  void TakeOver(size_t from, uint64_t epoch);
  void Shorten();
  void MarkFrom(size_t point);

  std::vector<LoggedPoint> points_;
  int64_t width_ = 1;
  // The latest epoch, and its first step.
  uint64_t epoch_ = 0;
  int64_t epoch_first_ = 0;
  uint32_t dirty_ = 0;
  size_t kept_chunks_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOGGED_LOGGED_CURVE_H_
