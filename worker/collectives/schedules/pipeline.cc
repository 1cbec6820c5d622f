#include "worker/collectives/schedules/pipeline.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace farandole {

void Relabel(absl::Span<const int> positions, Phases* phases) {
  for (Round& round : *phases) {
    for (Step& step : round) {
      if (step.kind != Step::Kind::kReduce) step.peer = positions[step.peer];
    }
  }
}

Schedule Pipeline(absl::string_view algorithm, std::vector<Phases> chunks, int64_t scratch_count) {
  Schedule schedule;
  schedule.algorithm = algorithm;
  schedule.scratch_count = scratch_count;
  if (chunks.empty()) return schedule;
  const size_t phases = chunks.front().size();
  for (size_t t = 0; t + 1 < chunks.size() + phases; ++t) {
    Round transfers;
    Round reduces;
    // The chunk that began first has its turn first, on every rank.
    for (size_t k = t < phases ? 0 : t - phases + 1; k <= std::min(t, chunks.size() - 1); ++k) {
      for (Step& step : chunks[k][t - k]) {
        (step.kind == Step::Kind::kReduce ? reduces : transfers).push_back(std::move(step));
      }
    }
    std::move(reduces.begin(), reduces.end(), std::back_inserter(transfers));
    schedule.Append(std::move(transfers));
  }
  return schedule;
}

}  // namespace farandole
