// Whole epochs by a seed: everything that a program can ask of its engines at once.
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "worker/engine/engine.h"
#include "worker/engine/test_epoch.h"

namespace farandole {
namespace {

// Bounds the test, also under sanitizers; another run takes the remaining seeds.
constexpr absl::Duration kLimit = absl::Seconds(8);

struct Group {
  uint32_t number = 0;
  std::vector<int> ranks;
};

// One collective of the program, the same on all ranks of its group except for a mismatch.
struct Step {
  std::string name;
  OpType op = OpType::kAllreduce;
  int group = 0;  // index
  size_t count = 1;
  int root = 0;       // position
  int deviator = -1;  // position that has another shape
};

// The programs of all ranks, by a seed: names are used again and again, in phases; within a phase each name once.
class Program {
 public:
  Program(int size, uint32_t seed) : random_(seed) {
    std::vector<int> all;
    for (int rank = 0; rank < size; ++rank) all.push_back(rank);
    groups_.push_back({0, all});
    for (int i = Below(3); i > 0; --i) {
      std::vector<int> ranks;
      for (int rank : all) {
        if (Below(2) == 0) ranks.push_back(rank);
      }
      if (!ranks.empty()) groups_.push_back({0, std::move(ranks)});
    }
    const int names = Below(25) + 1;
    for (int phase = Below(6) + 1; phase > 0; --phase) {
      phases_.emplace_back();
      for (int name = 0; name < names; ++name) {
        if (Below(4) != 0) phases_.back().push_back(MakeStep(name));
      }
    }
  }

  int Below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  std::vector<Group>& groups() { return groups_; }
  const std::vector<std::vector<Step>>& phases() const { return phases_; }

 private:
  Step MakeStep(int name) {
    const size_t counts[] = {0, 1, 17, 18, 19, 700, 20'000, 90'000};
    const OpType ops[] = {OpType::kAllreduce, OpType::kAllreduce, OpType::kAllreduce,
                          OpType::kAllgather, OpType::kBroadcast, OpType::kBarrier};
    Step step;
    step.group = name % static_cast<int>(groups_.size());
    const int members = static_cast<int>(groups_[step.group].ranks.size());
    step.op = ops[Below(6)];
    step.name = absl::StrCat("name", name);
    step.count = counts[Below(8)];
    step.root = Below(members);
    const bool can_differ = step.op == OpType::kAllreduce || step.op == OpType::kBroadcast;
    if (members > 1 && can_differ && Below(10) == 0) step.deviator = Below(members);
    return step;
  }

  std::mt19937 random_;
  std::vector<Group> groups_;
  std::vector<std::vector<Step>> phases_;
};

// One rank's run of a program.
class RankRun {
 public:
  RankRun(TestEpoch* epoch, Program* program, int rank, uint32_t seed)
      : epoch_(*epoch), program_(*program), rank_(rank), random_(seed * 100 + rank) {}

  void Run() {
    for (const std::vector<Step>& phase : program_.phases()) {
      std::vector<const Step*> own;
      for (const Step& step : phase) {
        const std::vector<int>& ranks = program_.groups()[step.group].ranks;
        if (std::binary_search(ranks.begin(), ranks.end(), rank_)) own.push_back(&step);
      }
      std::shuffle(own.begin(), own.end(), random_);
      Begin(own);
      // Some wait in a thread of their own, some in this one, some poll.
      std::vector<std::thread> waiters;
      for (size_t i = 0; i < own.size(); ++i) {
        if (Below(4) == 0) {
          waiters.emplace_back([this, i, step = own[i]] { Finish(*step, tensors_[i], /*polls=*/false); });
        } else {
          Finish(*own[i], tensors_[i], Below(3) == 0);
        }
      }
      for (std::thread& waiter : waiters) waiter.join();
      if (::testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  int Below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  // A rank's input; small whole numbers, so that sums are exact.
  static float ValueOf(int rank, size_t count) { return static_cast<float>(rank + 1) + static_cast<float>(count % 3); }

  void Begin(const std::vector<const Step*>& steps) {
    tensors_ = std::vector<TestTensor>(steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& step = *steps[i];
      const Group& group = program_.groups()[step.group];
      const bool deviates = step.deviator >= 0 && group.ranks[step.deviator] == rank_;
      size_t count = step.count + (deviates ? 1 : 0);
      // Rows differ from rank to rank.
      if (step.op == OpType::kAllgather) count = step.count * rank_ % 1000;
      tensors_[i] = TestTensor(step.name, std::vector<float>(count, ValueOf(rank_, step.count)));
      tensors_[i].op = step.op;
      tensors_[i].group = group.number;
      tensors_[i].root_rank = group.ranks[step.root];
      const absl::Status status = epoch_.Submit(rank_, tensors_[i]);
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  void Finish(const Step& step, TestTensor& tensor, bool polls) {
    Engine& engine = epoch_.engine(rank_);
    absl::StatusOr<bool> complete = false;
    const absl::Time started = absl::Now();
    do {
      complete = engine.Wait(tensor.handle, polls ? 0 : 500'000'000, /*release=*/false);
      std::this_thread::yield();
    } while (complete.ok() && !*complete && absl::Now() - started < absl::Seconds(60));
    if (step.deviator >= 0) {
      ASSERT_EQ(complete.status().code(), absl::StatusCode::kInvalidArgument) << step.name;
      ASSERT_TRUE(absl::StartsWith(complete.status().message(), absl::StrCat(step.name, ": rank ")))
          << complete.status();
    } else {
      ASSERT_TRUE(complete.ok()) << step.name << ": " << complete.status();
      ASSERT_TRUE(*complete) << step.name << " did not complete";
      Check(step, tensor);
    }
    engine.Release(tensor.handle);
  }

  void Check(const Step& step, const TestTensor& tensor) {
    const std::vector<int>& ranks = program_.groups()[step.group].ranks;
    if (step.op == OpType::kBarrier) return;
    if (step.op == OpType::kAllgather) return CheckGather(step, tensor);
    float expected = ValueOf(ranks[step.root], step.count);
    if (step.op == OpType::kAllreduce) {
      expected = 0;
      for (int rank : ranks) expected += ValueOf(rank, step.count);
    }
    ASSERT_EQ(tensor.values, std::vector<float>(step.count, expected)) << step.name;
  }

  void CheckGather(const Step& step, const TestTensor& tensor) {
    const Submission* result = epoch_.engine(rank_).Result(tensor.handle);
    ASSERT_NE(result, nullptr);
    std::vector<float> expected;
    for (int rank : program_.groups()[step.group].ranks) {
      expected.insert(expected.end(), step.count * rank % 1000, ValueOf(rank, step.count));
    }
    const auto* values = reinterpret_cast<const float*>(result->result.get());
    ASSERT_EQ(result->result_bytes, static_cast<int64_t>(expected.size() * sizeof(float)));
    ASSERT_EQ(std::vector<float>(values, values + expected.size()), expected) << step.name;
  }

  TestEpoch& epoch_;
  Program& program_;
  const int rank_;
  std::mt19937 random_;
  std::vector<TestTensor> tensors_;
};

void RunSeed(uint32_t seed) {
  std::mt19937 random(seed);
  auto below = [&](int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); };
  const std::vector<int> shapes[] = {{1}, {2}, {2}, {3}, {4}, {5}, {8}, {1, 1}, {2, 1}, {2, 2}, {1, 2, 2}};
  const std::vector<int>& hosts = shapes[below(11)];
  const int size = std::accumulate(hosts.begin(), hosts.end(), 0);
  const int64_t fusion_bytes[] = {1, 5000, 300'000, 64 << 20};
  const int64_t yields[] = {0, 5'000, 50'000};
  Program program(size, seed);
  TestEpoch epoch(hosts, {seed, fusion_bytes[below(4)], yields[below(3)]});
  for (size_t group = 1; group < program.groups().size(); ++group) {
    program.groups()[group].number = epoch.AddGroup(program.groups()[group].ranks);
  }
  const bool leaves = below(4) != 0;
  epoch.OnEachRank([&](int rank) {
    RankRun(&epoch, &program, rank, seed).Run();
    if (::testing::Test::HasFatalFailure() || !leaves) return;
    // A rank that leaves ends what others still negotiate, also where the answer to it is on its way.
    TestTensor barrier("", {});
    barrier.op = OpType::kBarrier;
    ASSERT_TRUE(epoch.Run(rank, barrier).ok());
    ASSERT_TRUE(epoch.engine(rank).Leave(nullptr).ok());
  });
  for (int rank = 0; rank < size; ++rank) EXPECT_EQ(epoch.engine(rank).table().pending(), 0);
}

TEST(EngineStressTest, EveryProgramRunsToItsEnd) {
  const absl::Time started = absl::Now();
  for (uint32_t seed = 0; seed < 300 && absl::Now() - started < kLimit; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RunSeed(seed);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace farandole
