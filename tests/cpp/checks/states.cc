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

CHECK_OF_ALL_RANKS(ManyValuesAreEachSavedOnce) {
  int saves = 0;
  int value = 1;
  elastic::State state(&job);
  for (int i = 0; i < 3; ++i) {
    state.Track(
        [&saves] {
          ++saves;
          return std::string("bytes");
        },
        [](const std::string&) {});
    state.Track(&value);
  }
  REQUIRE_EQ(saves, 3);
  value = 2;
  state.Restore();
  REQUIRE_EQ(value, 1);
}

// Rank 0 in the place of somebody between the hosts, who does not know the epoch's secret: gives a state of these
// bytes.
void GiveForged(Job& job, std::string packed) {
  int64_t most[1] = {(1 << 16) - 1};
  REQUIRE_OK(job.AllreduceInPlace(most, Call("farandole.elastic.advanced").With(ReduceOp::kMax)));
  REQUIRE_OK(job.BroadcastBytes(&packed, 0, "farandole.elastic.state"));
  uint8_t proof[32] = {};
  REQUIRE_OK(job.BroadcastInPlace(proof, 0, "farandole.elastic.proof"));
}

// A value of so many bytes, as a state has it.
std::string Packed(uint64_t size) {
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + std::string(size, '\x7f');
}

CHECK_OF_ALL_RANKS(AStateThatWasChangedBetweenHostsIsNotRestored) {
  if (job.size() < 2) return;
  const bool is_proven = job.local_size() < job.size();
  for (const uint64_t size : {sizeof(int), sizeof(int) - 1, sizeof(int) + 1}) {
    if (job.rank() == 0) {
      GiveForged(job, Packed(size) + Packed(size));
      continue;
    }
    int number = 5;
    std::vector<int> numbers = {5};
    elastic::State state(&job);
    state.Track(&number);
    state.Track(&numbers);
    const Status status = state.Sync();
    if (is_proven) {
      REQUIRE_ERROR(status, StatusCode::kDataLoss, "the state of rank 0 was changed on its way");
    } else if (size == sizeof(int)) {
      REQUIRE_OK(status);  // On one host nothing crosses a network.
    } else {
      REQUIRE_ERROR(status, StatusCode::kInvalidArgument, "value 1 of the state", std::to_string(size) + " bytes");
    }
    const int wanted = status.ok() ? 0x7f7f7f7f : 5;
    REQUIRE(number == wanted && numbers == std::vector<int>{wanted});
  }
}

CHECK_OF_ALL_RANKS(StatesOfOtherTypesAreRefusedAsAWhole) {
  if (job.size() < 2) return;
  std::vector<char> bytes(7, 'b');
  std::vector<int> numbers = {5};
  int number = 5;
  elastic::State state(&job);
  state.Track(&number);
  if (job.rank() == 0) {
    state.Track(&bytes);
  } else {
    state.Track(&numbers);
  }
  number = 6 + job.rank();
  const Status status = state.Sync();
  if (job.rank() == 0) {
    REQUIRE_OK(status);
  } else {
    REQUIRE_ERROR(status, StatusCode::kInvalidArgument, "value 2 of the state", "has 7 bytes", "tracks another type");
    REQUIRE(number == 6 + job.rank() && numbers == std::vector<int>{5});
  }
  REQUIRE_OK(job.Barrier());
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
