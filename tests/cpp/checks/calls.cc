// The calls around the operations: futures, errors, process sets, joining, arenas, checkpoints, the timeline.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cpp/checks/check.h"

namespace farandole::checks {
namespace {

Call Sum(const char* name) { return Call(name).With(ReduceOp::kSum); }

CHECK_OF_ALL_RANKS(ContinuationsRunWhereTheResultIsAwaited) {
  std::vector<int> values = {1, 2};
  const std::thread::id here = std::this_thread::get_id();
  auto future = job.AllreduceInPlaceAsync(values, Sum("then"))
                    .Then([&](Status status) {
                      REQUIRE_OK(status);
                      REQUIRE(std::this_thread::get_id() == here);
                      return values[1];
                    })
                    .Then([](int second) { return second + 1; });
  REQUIRE_EQ(future.Wait(), 2 * job.size() + 1);
  int rows = 0;
  {
    auto gathered = job.AllgatherAsync(values, "dropped").Then([&rows](StatusOr<Gathered> result) {
      REQUIRE_OK(result.status());
      rows = static_cast<int>(result->shape().count());
      return Status();
    });
  }
  REQUIRE_EQ(rows, 2 * job.size());
}

CHECK_OF_ALL_RANKS(NumbersOfTheProgramAreLogged) {
  REQUIRE_OK(job.Log("loss", 0.5));
  REQUIRE_OK(job.Log("loss", 0.25, /*step=*/10, /*by_rank=*/true));
  const Status refused = job.Log(std::string(129, 'x'), 1);
  REQUIRE(refused.code() == StatusCode::kInvalidArgument);
  REQUIRE(refused.message().find("has 129 bytes; a name that is logged has 1 to 128") != std::string::npos);
}

CHECK_OF_ALL_RANKS(ManyFuturesCompleteInAnyOrder) {
  std::vector<std::vector<float>> tensors(50, std::vector<float>(300, 1));
  std::vector<Future> futures;
  for (size_t i = 0; i < tensors.size(); ++i) {
    // Each rank in another order.
    const size_t which = (i + static_cast<size_t>(job.rank()) * 7) % tensors.size();
    futures.push_back(job.AllreduceInPlaceAsync(tensors[which], Sum(("many." + std::to_string(which)).c_str())));
  }
  REQUIRE_OK(WaitAll(futures));
  for (const std::vector<float>& tensor : tensors) REQUIRE_EQ(tensor[299], job.size());
}

CHECK_OF_ALL_RANKS(APendingFutureSaysSo) {
  std::vector<float> values = {1};
  if (job.size() > 1 && job.rank() == 0) {
    Future future = job.AllreduceInPlaceAsync(values, Sum("late"));
    REQUIRE(future.WaitFor(std::chrono::milliseconds(20)).code() == StatusCode::kStillPending);
    REQUIRE(!future.IsReady());
    REQUIRE_OK(job.Barrier(Call("let the others")));
    REQUIRE_OK(future.WaitFor(std::chrono::minutes(1)));
    REQUIRE(future.IsReady());
    REQUIRE_OK(future.Wait());
  } else {
    REQUIRE_OK(job.Barrier(Call("let the others")));
    REQUIRE_OK(job.AllreduceInPlace(values, Sum("late")));
  }
  REQUIRE_EQ(values[0], job.size());
}

CHECK_OF_ALL_RANKS(ADroppedFutureWaitsForItsMemory) {
  for (int turn = 0; turn < 20; ++turn) {
    std::vector<float> values(2000, 1);
    Future future = job.AllreduceInPlaceAsync(values, Sum("dropped"));
  }
  float value = 1;
  REQUIRE_OK(job.AllreduceInPlace(Scalar(&value), Sum("after")));
  REQUIRE_EQ(value, job.size());
}

CHECK_OF_ALL_RANKS(DisagreementsNameTwoRanksAndBothValues) {
  if (job.size() < 2) return;
  const int64_t last = job.size() - 1;
  std::vector<float> values(job.rank() == last ? 5 : 4, 1);
  REQUIRE_ERROR(job.AllreduceInPlace(values, "shape"), StatusCode::kInvalidArgument, "rank 0", "[4]", "[5]",
                "rank " + std::to_string(last));
  Future future = job.AllreduceInPlaceAsync(values, "shape later");
  REQUIRE_ERROR(future.Wait(), StatusCode::kInvalidArgument, "[4]", "[5]");
  std::vector<double> wide(4, 1);
  values.resize(4);
  const Status status = job.rank() == last ? job.AllreduceInPlace(wide, "type") : job.AllreduceInPlace(values, "type");
  REQUIRE_ERROR(status, StatusCode::kInvalidArgument, "float32", "float64");
  REQUIRE_OK(job.AllreduceInPlace(values, Sum("the job goes on")));
}

CHECK_OF_ALL_RANKS(WrongCallsAreRefusedWithBothValues) {
  std::vector<float> values(6, 1);
  std::vector<float> fewer(5);
  std::vector<double> wide(6);
  REQUIRE_ERROR(job.Allreduce(values, fewer), StatusCode::kInvalidArgument, "[6]", "[5]");
  REQUIRE_ERROR(job.AllreduceInPlace(values, "gr\xF6\xDF"), StatusCode::kInvalidArgument,
                "\"gr\\xf6\\xdf\" is not UTF-8");
  REQUIRE_ERROR(job.Allreduce(values, wide), StatusCode::kInvalidArgument, "float32", "float64");
  REQUIRE_ERROR(job.AllreduceInPlace(MutableTensor(values, {2, 4})), StatusCode::kInvalidArgument, "[2,4]", "6");
  REQUIRE_ERROR(job.GroupedAllreduce({values, values}, {values}), StatusCode::kInvalidArgument, "2 inputs",
                "1 outputs");
  REQUIRE_ERROR(job.GroupedAllreduceInPlace({values, wide}), StatusCode::kInvalidArgument, "float32", "float64");
  REQUIRE_ERROR(job.BroadcastInPlace(values, job.size()), StatusCode::kInvalidArgument, std::to_string(job.size()));
  REQUIRE_ERROR(job.Alltoall(values, std::vector<int64_t>(static_cast<size_t>(job.size()) + 1, 0)).status(),
                StatusCode::kInvalidArgument, std::to_string(job.size() + 1));
  const StatusOr<Job> second = Init();
  REQUIRE_ERROR(second.status(), StatusCode::kFailedPrecondition, "already");
}

CHECK_OF_ALL_RANKS(ProcessSetsReduceAmongThemselves) {
  if (job.size() < 2) return;
  const int last = job.size() - 1;
  const StatusOr<ProcessSet> ends = job.AddProcessSet({0, last});
  REQUIRE_OK(ends.status());
  REQUIRE_EQ(job.SizeOf(*ends), 2);
  const bool is_in = job.rank() == 0 || job.rank() == last;
  REQUIRE_EQ(job.RankIn(*ends), job.rank() == 0 ? 0 : job.rank() == last ? 1 : -1);
  if (is_in) {
    std::vector<int> values = {job.rank() + 1};
    REQUIRE_OK(job.AllreduceInPlace(values, Sum("ends").Among(*ends)));
    REQUIRE_EQ(values[0], last + 2);
    const StatusOr<Gathered> gathered = job.Allgather(values, Call("ends").Among(*ends));
    REQUIRE_OK(gathered.status());
    REQUIRE_EQ(gathered->rows().size(), 2u);
    REQUIRE_OK(job.BroadcastInPlace(values, last, Call("ends").Among(*ends)));
    std::vector<float> part(1);
    REQUIRE_OK(job.Reducescatter(std::vector<float>{1, 2}, part, Sum("ends").Among(*ends)));
    REQUIRE_EQ(part[0], job.rank() == 0 ? 2 : 4);
    REQUIRE_OK(job.Barrier(Call().Among(*ends)));
  }
  const std::vector<int> mine = {job.rank()};
  std::optional<GatherFuture> late;
  if (is_in) late.emplace(job.AllgatherAsync(mine, Call("late").Among(*ends)));
  while (is_in && !late->IsReady()) {
  }
  REQUIRE_OK(job.RemoveProcessSet(*ends));
  if (is_in) {
    const StatusOr<Gathered> gathered = late->Wait();
    REQUIRE_OK(gathered.status());
    REQUIRE_EQ(gathered->shape().count(), 2);
  }
  std::vector<int> values = {1};
  REQUIRE(!job.AllreduceInPlace(values, Sum("gone").Among(*ends)).ok());
  REQUIRE_ERROR(job.AddProcessSet({0, job.size()}).status(), StatusCode::kInvalidArgument);
}

CHECK_OF_ALL_RANKS(RanksThatHaveJoinedTakePart) {
  // Rank r has r + 1 steps.
  for (int step = 0; step <= job.rank(); ++step) {
    std::vector<int> values(700, 1);
    REQUIRE_OK(job.AllreduceInPlace(values, Sum("joined")));
    REQUIRE_EQ(values[0], job.size() - step);
  }
  const StatusOr<int> last = job.Join();
  REQUIRE_OK(last.status());
  REQUIRE_EQ(*last, job.size() - 1);
}

CHECK_OF_ALL_RANKS(ArenasAreReducedInPlace) {
  const StatusOr<Arena> made = Arena::Make(job, "arena", 1 << 20);
  if (made.status().code() == StatusCode::kUnimplemented) {
    REQUIRE(job.local_size() < job.size() || std::string(std::getenv("FARANDOLE_TRANSPORT")) != "auto");
    return;
  }
  REQUIRE_OK(made.status());
  const StatusOr<float*> floats = made->At<float>(4096, 100'000);
  REQUIRE_OK(floats.status());
  for (int i = 0; i < 100'000; ++i) (*floats)[i] = 1;
  const uint64_t before = job.Counters()->arena_bytes;
  REQUIRE_OK(job.AllreduceInPlace(MutableTensor(*floats, 100'000), Sum("in the arena")));
  REQUIRE_EQ((*floats)[99'999], job.size());
  if (job.size() > 1) REQUIRE_EQ(job.Counters()->arena_bytes - before, 400'000u);
  REQUIRE_ERROR(made->At<double>(4, 1).status(), StatusCode::kInvalidArgument, "at 4");
  REQUIRE_ERROR(made->At<float>(1 << 20, 1).status(), StatusCode::kInvalidArgument, "1048576");
}

CHECK_OF_ALL_RANKS(CheckpointsArePublishedByRankZero) {
  std::string directory = "checkpoints.XXXXXX";
  if (job.rank() == 0) {
    directory = "/tmp/" + directory;
    REQUIRE(mkdtemp(directory.data()) != nullptr);
  }
  REQUIRE_OK(job.BroadcastBytes(&directory, 0));
  CheckpointPlace place;
  place.directory = directory;
  place.step = 7;
  place.name = "cpp";
  const auto write = [](const std::string& path) {
    std::ofstream(path) << "seven";
    return Status();
  };
  const StatusOr<std::string> path = SaveCheckpoint(job, place, write);
  REQUIRE_OK(path.status());
  REQUIRE_EQ(path->empty(), job.rank() != 0);
  REQUIRE_OK(job.Barrier());
  const StatusOr<FoundCheckpoint> found = FindCheckpoint(job, directory, "cpp");
  REQUIRE_OK(found.status());
  REQUIRE_EQ(found->step, 7);
  std::string text;
  std::ifstream(found->path) >> text;
  REQUIRE_EQ(text, "seven");
  if (job.rank() == 0) {
    REQUIRE_ERROR(SaveCheckpoint(job, place, write).status(), StatusCode::kAlreadyExists, found->path);
    place.step = 8;
    REQUIRE_ERROR(
        SaveCheckpoint(job, place, [](const std::string&) { return Status(StatusCode::kInternal, "no ink"); }).status(),
        StatusCode::kUnavailable, "no ink");
    {
      const StatusOr<CheckpointWriter> dropped = CheckpointWriter::Begin(job, place);
      REQUIRE_OK(dropped.status());
      REQUIRE_ERROR(CheckpointWriter::Begin(job, place).status(), StatusCode::kFailedPrecondition);
    }
    REQUIRE_OK(CheckpointWriter::Begin(job, place).status());
  } else {
    REQUIRE_ERROR(CheckpointWriter::Begin(job, place).status(), StatusCode::kPermissionDenied, "rank 0");
  }
  REQUIRE_ERROR(FindCheckpoint(job, directory, "cpp", 8).status(), StatusCode::kNotFound);
  REQUIRE_OK(job.Barrier());
  if (job.rank() == 0) REQUIRE_EQ(std::system(("rm -r " + directory).c_str()), 0);
}

// tests/integration/checkpoints has somebody ask.
CHECK_OF_ALL_RANKS(NobodyWantsACheckpointUnasked) {
  for (int call = 0; call < 100; ++call) {
    const StatusOr<bool> requested = CheckpointRequested(job);
    REQUIRE_OK(requested.status());
    REQUIRE(!*requested);
  }
}

CHECK_OF_ALL_RANKS(TimelinesRecordWhatTensorsWaitFor) {
  std::string directory = "/tmp/timeline.XXXXXX";
  REQUIRE(mkdtemp(directory.data()) != nullptr);
  REQUIRE_OK(job.StartTimeline(directory + "/trace.json"));
  std::vector<float> values(10, 1);
  REQUIRE_OK(job.AllreduceInPlace(values, "in the timeline"));
  REQUIRE_OK(job.StopTimeline());
  const std::string suffix = job.rank() == 0 ? "" : ".rank" + std::to_string(job.rank());
  std::ifstream file(directory + "/trace" + suffix + ".json");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  REQUIRE(text.find("in the timeline") != std::string::npos);
  REQUIRE_EQ(std::system(("rm -r " + directory).c_str()), 0);
  REQUIRE_ERROR(job.StartTimeline("/nowhere/trace.json"), StatusCode::kInvalidArgument, "/nowhere/trace");
}

CHECK_OF_ALL_RANKS(ThreadsSubmitAtTheSameTime) {
  std::vector<std::thread> threads;
  std::vector<Status> found(4);
  for (size_t number = 0; number < found.size(); ++number) {
    threads.emplace_back([&job, &found, number] {
      const std::string name = "thread." + std::to_string(number);
      for (int turn = 0; turn < 50 && found[number].ok(); ++turn) {
        float value = 1;
        found[number] = job.AllreduceInPlace(Scalar(&value), Sum(name.c_str()));
        if (found[number].ok() && value != static_cast<float>(job.size())) {
          found[number] = Status(StatusCode::kInternal, "the sum is " + std::to_string(value));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : found) REQUIRE_OK(status);
}

}  // namespace
}  // namespace farandole::checks
