// Threads that call one job at the same time, in jobs of size 1, where nothing of gRPC runs: under TSan, too.
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "farandole/farandole.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int kThreads = 4;
constexpr int kTurns = 50;

// Calls `use(number)` on several threads at once.
void OnThreads(const std::function<void(int)>& use) {
  std::atomic<int> waiting{kThreads};
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&waiting, &use, number] {
      waiting.fetch_sub(1);
      while (waiting.load() > 0) std::this_thread::yield();
      use(number);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ThreadsTest, EachCallsEveryFormOfOperations) {
  StatusOr<Job> job = Init();
  ASSERT_TRUE(job.ok()) << job.status().message();
  OnThreads([&job](int number) {
    const std::string own = "thread " + std::to_string(number);
    for (int turn = 0; turn < kTurns; ++turn) {
      std::vector<float> values(64, static_cast<float>(number));
      std::vector<float> sum(64);
      EXPECT_TRUE(job->Allreduce(values, sum, Call(own + " sum").With(ReduceOp::kSum)).ok());
      Future first = job->AllreduceInPlaceAsync(values, own + " first");
      GatherFuture second = job->AllgatherAsync(values, own + " second");
      const StatusOr<Gathered> rows = second.Wait();
      EXPECT_TRUE(rows.ok() && rows->rows()[0] == 64);
      while (!first.IsReady()) EXPECT_TRUE(first.WaitFor(std::chrono::milliseconds(1)).ok());
      EXPECT_TRUE(first.Wait().ok());
      const StatusOr<std::vector<Gathered>> each = job->GroupedAllgather({values, sum}, own + " grouped");
      EXPECT_TRUE(each.ok() && each->size() == 2);
      EXPECT_TRUE(job->GroupedReducescatter({values, sum}, {sum, values}, own + " scattered").ok());
      EXPECT_TRUE(job->GroupedAllreduceInPlace({values, sum}, own + " reduced").ok());
      EXPECT_EQ(sum[63], static_cast<float>(number));
      EXPECT_TRUE(job->Counters().ok());
    }
  });
}

TEST(ThreadsTest, OneWaitsForWhatAnotherHasSubmitted) {
  StatusOr<Job> job = Init();
  ASSERT_TRUE(job.ok()) << job.status().message();
  std::vector<std::vector<int>> tensors(kThreads * kTurns, std::vector<int>(16, 1));
  std::vector<Future> futures;
  for (size_t i = 0; i < tensors.size(); ++i) {
    futures.push_back(job->AllreduceInPlaceAsync(tensors[i], std::to_string(i)));
  }
  OnThreads([&futures](int number) {
    for (size_t i = static_cast<size_t>(number); i < futures.size(); i += kThreads) EXPECT_TRUE(futures[i].Wait().ok());
  });
  for (const std::vector<int>& tensor : tensors) EXPECT_EQ(tensor[15], 1);
}

TEST(ThreadsTest, SomeLookAtAJobThatAnotherOneEnds) {
  for (int life = 0; life < 10; ++life) {
    StatusOr<Job> job = Init();
    ASSERT_TRUE(job.ok()) << job.status().message();
    OnThreads([&job](int number) {
      if (number == 0) {
        EXPECT_TRUE(job->Shutdown().ok());
        return;
      }
      std::vector<float> values(8, 1);
      const Status status = job->AllreduceInPlace(values, "thread " + std::to_string(number));
      EXPECT_TRUE(status.ok() || status.code() == StatusCode::kAborted ||
                  status.code() == StatusCode::kFailedPrecondition)
          << status.message();
      EXPECT_LE(job->rank(), 0);
    });
  }
}

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) {
  setenv("FARANDOLE_LIBRARY", "worker/libfarandole.so", 1);
  // The sanitizers see calls of the library only where it looks for functions as the program does.
  setenv("FARANDOLE_DEEPBIND", "0", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
