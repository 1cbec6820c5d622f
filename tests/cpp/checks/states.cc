// States of elastic programs, in a job that is not elastic itself: what they save, restore and share.
#include <string>
#include <vector>

#include "tests/cpp/checks/check.h"

namespace farandole::checks {
namespace {

CHECK_OF_ALL_RANKS(AStateGoesBackToItsLastCommitHoweverOften) {
  int step = 1;
  std::vector<double> weights = {1, 2};
  std::string note = "first";
  elastic::State state(&job);
  state.Track(&step);
  state.Track(&weights);
  state.Track(&note);
  for (int turn = 0; turn < 2; ++turn) {
    step = 9;
    weights.assign(5, 0);
    note.clear();
    state.Restore();
    REQUIRE(step == 1 && weights == std::vector<double>({1, 2}) && note == "first");
  }
  step = 2;
  REQUIRE_OK(state.Commit());
  step = 3;
  state.Restore();
  REQUIRE_EQ(step, 2);
}

CHECK_OF_ALL_RANKS(TheMostAdvancedRankGivesItsState) {
  std::vector<int> values(static_cast<size_t>(job.rank()) + 1, job.rank());
  elastic::State state(&job);
  state.Track(&values);
  for (int commits = 0; commits < (job.rank() == 0 ? 0 : 1); ++commits) REQUIRE_OK(state.Commit());
  REQUIRE_OK(state.Sync());
  const int root = job.size() > 1 ? 1 : 0;
  REQUIRE(values == std::vector<int>(static_cast<size_t>(root) + 1, root));
  values.clear();
  state.Restore();
  REQUIRE_EQ(values.size(), static_cast<size_t>(root) + 1);
}

CHECK_OF_ALL_RANKS(StatesOfDifferentProgramsAreRefused) {
  if (job.size() < 2) return;
  int one = job.rank();
  int two = 5;
  elastic::State state(&job);
  state.Track(&one);
  if (job.rank() == 1) state.Track(&two);
  const Status status = state.Sync();
  if (job.rank() != 1) {
    REQUIRE_OK(status);
  } else {
    REQUIRE_ERROR(status, StatusCode::kInvalidArgument, "1 values", "rank 1 tracks 2");
  }
  REQUIRE_OK(job.Barrier());
}

CHECK_OF_ALL_RANKS(RunSharesTheStateAndGivesTheFunctionsError) {
  int value = job.rank();
  elastic::State state(&job);
  state.Track(&value);
  int calls = 0;
  const auto train = [&]() -> Status {
    ++calls;
    REQUIRE_EQ(value, 0);
    value = 7;
    return calls == 1 ? state.Commit() : Status(StatusCode::kNotFound, "the end");
  };
  REQUIRE_OK(elastic::Run(&state, train));
  value = 0;
  REQUIRE_ERROR(elastic::Run(&state, train), StatusCode::kNotFound, "the end");
  REQUIRE_EQ(calls, 2);
}

}  // namespace
}  // namespace farandole::checks
