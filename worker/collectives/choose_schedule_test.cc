#include "worker/collectives/choose_schedule.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

// A collective of `size` ranks; the ranks live as long as the case.
struct Case {
  explicit Case(OpType op, int size, int64_t count) : ranks(size) {
    std::iota(ranks.begin(), ranks.end(), 0);
    collective.sequence = 7;
    collective.op = op;
    collective.ranks = ranks;
    collective.count = count;
  }

  std::string Algorithm() const {
    const absl::StatusOr<Schedule> schedule = ChooseSchedule(collective);
    return schedule.ok() ? std::string(schedule->algorithm) : schedule.status().ToString();
  }

  std::vector<int> ranks;
  Collective collective;
};

TEST(ChooseScheduleTest, FewRanksAddInOrderWhateverTheSize) {
  for (const int size : {1, 2, 8}) {
    for (const int64_t count : {0, 1, 20'000, 1 << 24}) {
      EXPECT_EQ(Case(OpType::kAllreduce, size, count).Algorithm(), "direct allreduce");
    }
  }
}

TEST(ChooseScheduleTest, ManyRanksDoubleOrRunTheRing) {
  EXPECT_EQ(Case(OpType::kAllreduce, 9, 1).Algorithm(), "recursive doubling allreduce");
  EXPECT_EQ(Case(OpType::kAllreduce, 9, (64 << 10) / 4).Algorithm(), "recursive doubling allreduce");
  EXPECT_EQ(Case(OpType::kAllreduce, 9, (64 << 10) / 4 + 1).Algorithm(), "ring allreduce");
  EXPECT_EQ(Case(OpType::kAllreduce, 1000, 1 << 24).Algorithm(), "ring allreduce");
}

TEST(ChooseScheduleTest, OtherOpsHaveOneScheduleEach) {
  Case gather(OpType::kAllgather, 3, 5);
  const std::vector<int64_t> counts = {2, 0, 3};
  gather.collective.counts = counts;
  EXPECT_EQ(gather.Algorithm(), "ring allgather");
  EXPECT_EQ(Case(OpType::kBroadcast, 3, 5).Algorithm(), "binomial tree broadcast");
  EXPECT_EQ(Case(OpType::kBarrier, 3, 0).Algorithm(), "dissemination barrier");
  Case scatter(OpType::kReducescatter, 3, 5);
  scatter.collective.counts = counts;
  EXPECT_EQ(scatter.Algorithm(), "direct reducescatter");
  Case exchange(OpType::kAlltoall, 3, 5);
  const std::vector<int64_t> sent = {2, 7, 0};
  exchange.collective.counts = counts;
  exchange.collective.sent_counts = sent;
  EXPECT_EQ(exchange.Algorithm(), "pairwise alltoall");
  const std::vector<int64_t> contradicting = {1, 7, 0};
  exchange.collective.sent_counts = contradicting;
  EXPECT_EQ(exchange.Algorithm(), "INVALID_ARGUMENT: batch 7: alltoall sends [1,7,0] elements and gets [2,0,3]");
  Case among_many(OpType::kReducescatter, 9, 0);
  const std::vector<int64_t> none(9, 0);
  among_many.collective.counts = none;
  EXPECT_EQ(among_many.Algorithm(), "ring reducescatter");
}

std::string AlgorithmOn(const std::vector<int>& sizes, OpType op, int64_t count) {
  const Hosts hosts = Hosts::WithSizes(sizes);
  Case tested(op, hosts.size(), count);
  const std::vector<int64_t> counts(hosts.size(), count / hosts.size());
  if (op == OpType::kAllgather || op == OpType::kReducescatter) tested.collective.counts = counts;
  const absl::StatusOr<Schedule> schedule = ChooseSchedule(tested.collective, hosts);
  return schedule.ok() ? std::string(schedule->algorithm) : schedule.status().ToString();
}

TEST(ChooseScheduleTest, OverHostsFewElementsTakeFewRoundsAndManyTakeFewBytes) {
  constexpr int64_t kFew = (64 << 10) / 4;
  EXPECT_EQ(AlgorithmOn({1, 1, 1}, OpType::kAllreduce, kFew), "one exchange allreduce");
  EXPECT_EQ(AlgorithmOn({1, 1, 1}, OpType::kAllreduce, kFew + 1), "direct allreduce");
  EXPECT_EQ(AlgorithmOn({2, 1}, OpType::kAllreduce, 1), "leaders' one exchange allreduce");
  EXPECT_EQ(AlgorithmOn({2, 1}, OpType::kAllreduce, 1 << 20), "hierarchical direct allreduce");
  const std::vector<int> many(9, 1);
  const std::vector<int> more(9, 2);
  EXPECT_EQ(AlgorithmOn(many, OpType::kAllreduce, kFew), "recursive doubling allreduce");
  EXPECT_EQ(AlgorithmOn(many, OpType::kAllreduce, kFew + 1), "ring allreduce");
  EXPECT_EQ(AlgorithmOn(more, OpType::kAllreduce, kFew), "leaders' recursive doubling allreduce");
  EXPECT_EQ(AlgorithmOn(more, OpType::kAllreduce, kFew + 1), "hierarchical ring allreduce");
  EXPECT_EQ(AlgorithmOn({2, 2}, OpType::kAllgather, 400), "leaders' ring allgather");
  EXPECT_EQ(AlgorithmOn({2, 2}, OpType::kAllgather, 1 << 20), "ring allgather");
  EXPECT_EQ(AlgorithmOn({2, 2}, OpType::kBroadcast, 7), "broadcast over hosts");
  EXPECT_EQ(AlgorithmOn({2, 2}, OpType::kReducescatter, 1 << 20), "hierarchical direct reducescatter");
  EXPECT_EQ(AlgorithmOn({1, 1}, OpType::kReducescatter, 1 << 20), "direct reducescatter");
  EXPECT_EQ(AlgorithmOn(more, OpType::kReducescatter, 18), "ring reducescatter");
  EXPECT_EQ(AlgorithmOn({2, 2}, OpType::kBarrier, 0), "leaders' dissemination barrier");
}

TEST(ChooseScheduleTest, AGroupOnOneHostRunsAsIfThereWereNoOther) {
  const Hosts hosts = Hosts::WithSizes({1, 2, 1});
  Case pair(OpType::kAllreduce, 2, 1 << 20);
  pair.ranks = {1, 2};
  EXPECT_EQ(ChooseSchedule(pair.collective, hosts)->algorithm, "direct allreduce");
  pair.ranks = {0, 2};
  EXPECT_EQ(ChooseSchedule(pair.collective, hosts)->algorithm, "direct allreduce");
}

TEST(ChooseScheduleTest, WhatHasNoScheduleIsRefused) {
  EXPECT_EQ(ChooseSchedule(Case(OpType::kJoin, 2, 4).collective).status().code(), absl::StatusCode::kUnimplemented);
  Case scatter(OpType::kReducescatter, 2, 4);
  const std::vector<int64_t> counts = {2, 2};
  scatter.collective.counts = counts;
  scatter.collective.reduce_op = ReduceOp::kAdasum;
  EXPECT_EQ(ChooseSchedule(scatter.collective).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(ChooseScheduleTest, AdasumCombinesTwoRanksAtATimeOnAnyHosts) {
  Case adasum(OpType::kAllreduce, 4, 1 << 24);
  adasum.collective.reduce_op = ReduceOp::kAdasum;
  EXPECT_EQ(adasum.Algorithm(), "recursive doubling allreduce");
  EXPECT_EQ(ChooseSchedule(adasum.collective, Hosts::WithSizes({2, 2}))->algorithm, "recursive doubling allreduce");
}

TEST(ChooseScheduleTest, ContradictionsAreNamed) {
  Case average(OpType::kAllreduce, 2, 4);
  average.collective.reduce_op = ReduceOp::kAverage;
  average.collective.dtype = DType::kBool;
  EXPECT_EQ(average.Algorithm(), "INVALID_ARGUMENT: batch 7: the average of bool has no meaning");
  Case root(OpType::kBroadcast, 2, 4);
  root.collective.root = 2;
  EXPECT_EQ(root.Algorithm(), "INVALID_ARGUMENT: batch 7: the root's position is 2 in a group of 2 ranks");
  Case position(OpType::kBarrier, 2, 0);
  position.collective.position = 2;
  EXPECT_EQ(position.Algorithm(), "INVALID_ARGUMENT: batch 7: position 2 in a group of 2 ranks");
  Case gather(OpType::kAllgather, 2, 5);
  EXPECT_EQ(gather.Algorithm(), "INVALID_ARGUMENT: batch 7: allgather of 0 counts in a group of 2 ranks");
  const std::vector<int64_t> counts = {2, 2};
  gather.collective.counts = counts;
  EXPECT_EQ(gather.Algorithm(), "INVALID_ARGUMENT: batch 7: allgather of 5 elements, but the ranks have 4");
}

}  // namespace
}  // namespace farandole
