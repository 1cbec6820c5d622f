#include "deploy/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "deploy/bench/exercise.h"
#include "worker/farandole.h"

namespace farandole::bench {
namespace {

// The first step negotiates the names; the others fill the caches, and say how many steps there is time for.
constexpr uint64_t kWarmUpSteps = 4;
// So often ranks look at the time.
constexpr int64_t kLooks = 8;
// 32 KiB are written in less than 3 us.
constexpr uint64_t kMostBytesWithoutBarrier = 32 << 10;

// Reduces in place over all ranks.
absl::Status AllreduceNumbers(const char* name, void* numbers, size_t count, DType dtype, ReduceOp op) {
  const auto shape = static_cast<int64_t>(count);
  return Finish(farandole_allreduce(name, numbers, numbers, &shape, 1, static_cast<int>(dtype), static_cast<int>(op), 1,
                                    1, 0, -1));
}

class Stopwatch {
 public:
  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The seconds of one step on this rank.
absl::StatusOr<double> TimeStep(Exercise* exercise, bool has_barrier, uint64_t turn) {
  exercise->Rewrite(turn);
  if (has_barrier) {
    if (absl::Status status = Finish(farandole_barrier("bench/start", 0, -1)); !status.ok()) return status;
  }
  const Stopwatch watch;
  absl::Status status = exercise->Step();
  const double seconds = watch.Seconds();
  if (!status.ok()) return status;
  return seconds;
}

// The steps that all ranks can do in the time, by the slowest rank's fastest step.
absl::StatusOr<int64_t> AgreeOnSteps(double seconds, const Limits& limits) {
  absl::Status status = AllreduceNumbers("bench/slowest", &seconds, 1, DType::kF64, ReduceOp::kMax);
  if (!status.ok()) return status;
  const double wanted = absl::ToDoubleSeconds(limits.duration) / std::max(seconds, 1e-9);
  return static_cast<int64_t>(
      std::clamp(wanted, static_cast<double>(limits.least_steps), static_cast<double>(limits.most_steps)));
}

// If others need the processors, a step takes many times as long as the fastest.
absl::StatusOr<bool> AgreeThatTimeIsOver(const Stopwatch& watch, const Limits& limits) {
  double seconds = watch.Seconds();
  absl::Status status = AllreduceNumbers("bench/slowest", &seconds, 1, DType::kF64, ReduceOp::kMax);
  if (!status.ok()) return status;
  return seconds > 2 * absl::ToDoubleSeconds(limits.duration);
}

}  // namespace

absl::StatusOr<Measurement> Measure(const Case& what, const Limits& limits) {
  Measurement result;
  result.what = what;
  result.size = farandole_size();
  const absl::StatusOr<std::unique_ptr<Exercise>> made = Exercise::Make(what, farandole_rank(), result.size);
  if (!made.ok()) return made.status();
  const std::unique_ptr<Exercise>& exercise = *made;
  const bool has_barrier = !what.Synchronizes() || result.Bytes() > kMostBytesWithoutBarrier;
  double fastest = absl::ToDoubleSeconds(absl::Hours(1));
  uint64_t turn = 0;
  int64_t wrong = 0;
  for (; turn < kWarmUpSteps; ++turn) {
    const absl::StatusOr<double> seconds = TimeStep(exercise.get(), true, turn);
    if (!seconds.ok()) return seconds.status();
    fastest = std::min(fastest, *seconds);
    wrong += static_cast<int64_t>(exercise->CountWrong(turn));
  }
  const absl::StatusOr<int64_t> steps = AgreeOnSteps(fastest, limits);
  if (!steps.ok()) return steps.status();
  std::vector<double> samples;
  samples.reserve(static_cast<size_t>(*steps));
  const Stopwatch watch;
  for (int64_t step = 0; step < *steps; ++step, ++turn) {
    if (step > 0 && step % (*steps / kLooks + limits.least_steps) == 0) {
      const absl::StatusOr<bool> is_over = AgreeThatTimeIsOver(watch, limits);
      if (!is_over.ok()) return is_over.status();
      if (*is_over) break;
    }
    const absl::StatusOr<double> seconds = TimeStep(exercise.get(), has_barrier, turn);
    if (!seconds.ok()) return seconds.status();
    samples.push_back(*seconds);
  }
  result.steps = static_cast<int64_t>(samples.size());
  wrong += static_cast<int64_t>(exercise->CountWrong(turn - 1));
  absl::Status status = AllreduceNumbers("bench/wrong", &wrong, 1, DType::kI64, ReduceOp::kSum);
  if (!status.ok()) return status;
  status = AllreduceNumbers("bench/samples", samples.data(), samples.size(), DType::kF64, ReduceOp::kMax);
  if (!status.ok()) return status;
  const Quantiles quantiles = QuantilesOf(std::move(samples));
  result.wrong = wrong;
  result.median = absl::Seconds(quantiles.median);
  result.p99 = absl::Seconds(quantiles.p99);
  result.least = absl::Seconds(quantiles.least);
  return result;
}

}  // namespace farandole::bench
