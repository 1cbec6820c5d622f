// Processes that are workers one time after the other, in jobs of size 1: an object of an earlier life does nothing to
// a later one.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "farandole/farandole.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

Job Begin() { return ExitOnError(Init()); }

void ExpectWorks(Job& job) {
  std::vector<float> values = {1, 2};
  const Status status = job.AllreduceInPlace(values, "works");
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(job.rank(), 0);
  EXPECT_EQ(job.size(), 1);
}

void ExpectRefuses(const Status& status, const std::string& call) {
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << call << ": " << status.message();
  EXPECT_NE(status.message().find("this Job was shut down or moved from"), std::string::npos) << call;
}

void ExpectIsOver(Job& job) {
  std::vector<float> values = {1, 2};
  std::string bytes = "x";
  const std::vector<ConstTensor> inputs = {values};
  const std::vector<MutableTensor> outputs = {values};
  CheckpointPlace place;
  place.directory = "/nowhere";
  const std::map<std::string, std::function<Status()>> calls = {
      {"Fail", [&] { return job.Fail("not of a later one"); }},
      {"Rejoin", [&] { return job.Rejoin(); }},
      {"EpochEnded", [&] { return job.EpochEnded(); }},
      {"AddProcessSet", [&] { return job.AddProcessSet({0}).status(); }},
      {"RemoveProcessSet", [&] { return job.RemoveProcessSet(ProcessSet()); }},
      {"Allreduce", [&] { return job.Allreduce(values, values); }},
      {"AllreduceInPlace", [&] { return job.AllreduceInPlace(values, "x"); }},
      {"AllreduceAsync", [&] { return job.AllreduceInPlaceAsync(values).Wait(); }},
      {"GroupedAllreduce", [&] { return job.GroupedAllreduce(inputs, outputs); }},
      {"Allgather", [&] { return job.Allgather(values).status(); }},
      {"GroupedAllgather", [&] { return job.GroupedAllgather(inputs).status(); }},
      {"GroupedAllgather of none", [&] { return job.GroupedAllgather({}).status(); }},
      {"Alltoall", [&] { return job.Alltoall(values).status(); }},
      {"Gather", [&] { return job.Gather(values, 0).status(); }},
      {"Scatter", [&] { return job.ScatterAsync(values, 0).Wait().status(); }},
      {"Broadcast", [&] { return job.BroadcastInPlace(values, 0); }},
      {"BroadcastBytes", [&] { return job.BroadcastBytes(&bytes, 0); }},
      {"Reducescatter", [&] { return job.Reducescatter(values, values); }},
      {"GroupedReducescatter", [&] { return job.GroupedReducescatter(inputs, outputs); }},
      {"Barrier", [&] { return job.Barrier(); }},
      {"Join", [&] { return job.Join().status(); }},
      {"UseStream", [&] { return job.UseStream(-1, nullptr); }},
      {"StartTimeline", [&] { return job.StartTimeline("/nowhere/trace.json"); }},
      {"Log", [&] { return job.Log("loss", 1); }},
      {"Counters", [&] { return job.Counters().status(); }},
      {"Arena::Make", [&] { return Arena::Make(job, "arena", 4096).status(); }},
      {"CheckpointWriter::Begin", [&] { return CheckpointWriter::Begin(job, place).status(); }},
      {"FindCheckpoint", [&] { return FindCheckpoint(job, "/nowhere").status(); }},
      {"CheckpointRequested", [&] { return CheckpointRequested(job).status(); }},
  };
  for (const auto& [name, call] : calls) ExpectRefuses(call(), name);
  EXPECT_EQ(job.rank(), -FARANDOLE_FAILED_PRECONDITION);
  EXPECT_EQ(job.size(), -FARANDOLE_FAILED_PRECONDITION);
  EXPECT_EQ(job.epoch(), -FARANDOLE_FAILED_PRECONDITION);
  EXPECT_FALSE(job.is_elastic());
  EXPECT_FALSE(job.is_homogeneous());
  EXPECT_LT(job.RankIn(ProcessSet()), -1);
  EXPECT_EQ(job.RowsOfShare(10), 0);
  EXPECT_TRUE(Section(job, "data").status().ok()) << "nothing counts, as before Init()";
  EXPECT_TRUE(job.StopTimeline().ok());
  EXPECT_TRUE(job.Shutdown().ok());
}

TEST(LivesTest, AVariableTakesTheNextJob) {
  std::optional<Job> job;
  for (int life = 0; life < 3; ++life) {
    job.emplace(Begin());
    ExpectWorks(*job);
    EXPECT_TRUE(job->Shutdown().ok());
    ExpectIsOver(*job);
  }
  auto pointer = std::make_unique<Job>(Begin());
  EXPECT_TRUE(pointer->Shutdown().ok());
  pointer = std::make_unique<Job>(Begin());
  ExpectWorks(*pointer);
  pointer.reset();
  job = Begin();
  ExpectWorks(*job);
  Job last = *std::exchange(job, std::nullopt);
  ExpectWorks(last);
}

TEST(LivesTest, AVectorOfJobsGrowsAndShrinks) {
  std::vector<Job> jobs;
  for (int life = 0; life < 5; ++life) {
    jobs.push_back(Begin());
    ExpectWorks(jobs.back());
    if (life == 4) break;
    EXPECT_TRUE(jobs.back().Shutdown().ok());
  }
  ExpectIsOver(jobs[0]);
  jobs.erase(jobs.begin(), jobs.begin() + 2);
  ExpectIsOver(jobs[1]);
  ExpectWorks(jobs[2]);
  std::swap(jobs[0], jobs[2]);
  ExpectWorks(jobs[0]);
  jobs.pop_back();
  ExpectWorks(jobs[0]);
}

TEST(LivesTest, AnOlderJobThatIsDestroyedLaterEndsNothing) {
  std::optional<Job> later;
  {
    Job earlier = Begin();
    EXPECT_TRUE(earlier.Shutdown().ok());
    later.emplace(Begin());
    ExpectIsOver(earlier);
    ExpectWorks(*later);
  }
  ExpectWorks(*later);
  EXPECT_THROW(
      {
        Job over = std::exchange(later, std::nullopt).value();
        EXPECT_TRUE(over.Shutdown().ok());
        later.emplace(Begin());
        throw std::runtime_error("the program's own");
      },
      std::runtime_error);
  EXPECT_TRUE(later->EpochEnded().ok());
  ExpectWorks(*later);
}

TEST(LivesTest, AJobThatWasMovedFromHasNoPartInIt) {
  Job first = Begin();
  Job second = std::move(first);
  ExpectIsOver(first);
  ExpectWorks(second);
  Job& itself = second;
  second = std::move(itself);
  ExpectWorks(second);
  first = std::move(second);
  ExpectIsOver(second);
  ExpectWorks(first);
  first = std::move(second);
  ExpectIsOver(first);
  EXPECT_TRUE(Init().ok()) << "an assignment ends the job that the variable had";
}

TEST(LivesTest, AJobCountsItsRejoins) {
  Job job = Begin();
  EXPECT_EQ(job.rejoins(), 0);
  EXPECT_TRUE(job.Rejoin().ok());
  EXPECT_EQ(job.rejoins(), 1);
  EXPECT_EQ(job.epoch(), 0) << "without a coordinator it does not tell the epochs apart";
  Job moved = std::move(job);
  EXPECT_EQ(moved.rejoins(), 1);
  EXPECT_TRUE(moved.Shutdown().ok());
  EXPECT_FALSE(moved.Rejoin().ok());
  EXPECT_EQ(moved.rejoins(), 1);
  moved = Begin();
  EXPECT_EQ(moved.rejoins(), 0);
  ExpectWorks(moved);
}

TEST(LivesTest, ASecondInitLeavesTheFirstJobAsItIs) {
  Job job = Begin();
  EXPECT_EQ(Init().status().code(), StatusCode::kFailedPrecondition);
  ExpectWorks(job);
}

TEST(LivesTest, ProcessSetsAreOfTheJobThatHasMadeThem) {
  std::optional<Job> job(Begin());
  const ProcessSet old = *job->AddProcessSet({0});
  EXPECT_EQ(job->RankIn(old), 0);
  EXPECT_TRUE(job->Barrier(Call().Among(old)).ok());
  EXPECT_EQ(job->RowsOfShare(10, Call().Among(old)), 10);
  job.reset();
  job.emplace(Begin());
  const ProcessSet present = *job->AddProcessSet({0});
  EXPECT_EQ(job->SizeOf(present), 1);
  EXPECT_EQ(job->SizeOf(old), -FARANDOLE_FAILED_PRECONDITION);
  EXPECT_EQ(job->RankIn(old), -FARANDOLE_FAILED_PRECONDITION);
  EXPECT_EQ(job->RowsOfShare(10, Call().Among(old)), 0);
  const Status status = job->Barrier(Call().Among(old));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("the process set of ranks [0] was made by a Job that has ended"), std::string::npos)
      << status.message();
  EXPECT_FALSE(job->RemoveProcessSet(old).ok());
  EXPECT_TRUE(job->RemoveProcessSet(present).ok());
}

TEST(LivesTest, AnOldCheckpointWriterAbandonsNoOtherCheckpoint) {
  char directory[] = "/tmp/lives.XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  CheckpointPlace place;
  place.directory = directory;
  std::optional<Job> job(Begin());
  std::optional<CheckpointWriter> old(*CheckpointWriter::Begin(*job, place));
  EXPECT_TRUE(job->Shutdown().ok());
  job.emplace(Begin());
  place.step = 1;
  CheckpointWriter writer = *CheckpointWriter::Begin(*job, place);
  ExpectRefuses(old->Commit().status(), "Commit");
  EXPECT_NE(old->Fail("no ink").message().find("already"), std::string::npos);
  old.reset();
  ASSERT_EQ(system(("echo one >" + writer.path()).c_str()), 0);
  const StatusOr<std::string> path = writer.Commit();
  EXPECT_TRUE(path.ok()) << path.status().message();
  EXPECT_EQ(system(("rm -r " + place.directory).c_str()), 0);
}

TEST(LivesTest, AForkedChildEndsNothing) {
  std::optional<Job> job(Begin());
  const pid_t child = fork();
  if (child == 0) {
    const bool is_refused = job->Barrier().code() == StatusCode::kFailedPrecondition && !Init().ok();
    job.reset();
    const Status again = Init().status();
    _exit(is_refused && again.message().find("forked") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ExpectWorks(*job);
}

TEST(LivesTest, AJobKeepsWhatItAsksWhetherToGiveUp) {
  Options options;
  options.interrupted = [] { return 0; };
  Job job = ExitOnError(Init(options));
  EXPECT_EQ(job.interrupted(), options.interrupted);
  const Job moved = std::move(job);
  EXPECT_EQ(moved.interrupted(), options.interrupted);
}

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) {
  setenv("FARANDOLE_LIBRARY", "worker/libfarandole.so", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
