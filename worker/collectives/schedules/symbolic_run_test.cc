#include "worker/collectives/schedules/symbolic_run.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr Piece kFirst = {Buffer::kWork, 0, 1};
constexpr Piece kSecond = {Buffer::kWork, 1, 1};
constexpr Piece kBoth = {Buffer::kWork, 0, 2};
constexpr Piece kScratch = {Buffer::kScratch, 0, 1};

// The fault of two ranks that run these rounds, each contributing two
// elements, with one element of scratch.
std::string FaultOf(std::vector<Round> first, std::vector<Round> second) {
  SymbolicRun run({{"test", 1, std::move(first)}, {"test", 1, std::move(second)}}, 2);
  run.ContributeAll();
  const absl::Status status = run.Run();
  return std::string(status.message().substr(0, status.message().find('\n')));
}

TEST(SymbolicRunTest, AnExchangeIsFine) {
  EXPECT_EQ(FaultOf({{Step::Send(1, kFirst), Step::Receive(1, kSecond)}},
                    {{Step::Receive(0, kSecond), Step::Send(0, kFirst)}}),
            "");
}

TEST(SymbolicRunTest, ACycleOfReceivesIsADeadlock) {
  EXPECT_EQ(FaultOf({{Step::Receive(1, kFirst)}, {Step::Send(1, kSecond)}},
                    {{Step::Receive(0, kFirst)}, {Step::Send(0, kSecond)}}),
            "rank 0 in round 0 waits for ever");
}

TEST(SymbolicRunTest, ASendWithoutAReceiveIsADeadlock) {
  EXPECT_EQ(FaultOf({{Step::Send(1, kFirst)}}, {}), "rank 0 in round 0 waits for ever");
}

TEST(SymbolicRunTest, TransfersThatMatchHaveEqualLengths) {
  EXPECT_EQ(FaultOf({{Step::Send(1, kFirst)}}, {{Step::Receive(0, kBoth)}}),
            "rank 1 in round 0 receives 2 elements from 0, which sends 1");
}

TEST(SymbolicRunTest, StepsOfARoundStayOutOfEachOthersWay) {
  const Round mixed = {Step::Send(1, kBoth), Step::Receive(1, kSecond)};
  EXPECT_EQ(FaultOf({mixed}, {}), "rank 0 in round 0 receives into what another transfer uses");
  const Round late = {Step::Reduce(kFirst, {kFirst}, true), Step::Send(1, kSecond)};
  EXPECT_EQ(FaultOf({late}, {}), "rank 0 in round 0 transfers after a reduction of the same round");
}

TEST(SymbolicRunTest, StepsStayInTheirBuffersAndInTheGroup) {
  EXPECT_EQ(FaultOf({{Step::Send(1, {Buffer::kScratch, 1, 1})}}, {}), "rank 0 in round 0 leaves its buffer");
  EXPECT_EQ(FaultOf({{Step::Send(1, {Buffer::kWork, 1, 0})}}, {}), "rank 0 in round 0 leaves its buffer");
  EXPECT_EQ(FaultOf({{Step::Send(2, kFirst)}}, {}), "rank 0 in round 0 has no peer 2");
  EXPECT_EQ(FaultOf({{Step::Send(0, kFirst)}}, {}), "rank 0 in round 0 has no peer 0");
}

TEST(SymbolicRunTest, WhatIsReducedIsThereOnceAndOfOneElement) {
  EXPECT_EQ(FaultOf({{Step::Reduce(kFirst, {kFirst, kScratch}, false)}}, {}), "rank 0 in round 0 reduces nothing");
  EXPECT_EQ(FaultOf({{Step::Reduce(kFirst, {kFirst, kFirst}, false)}}, {}),
            "rank 0 in round 0 counts a contribution twice: 0");
  const Round exchange = {Step::Send(1, kFirst), Step::Receive(1, kScratch)};
  EXPECT_EQ(FaultOf({exchange, {Step::Reduce(kSecond, {kSecond, kScratch}, false)}},
                    {{Step::Send(0, kFirst), Step::Receive(0, kScratch)}}),
            "rank 0 in round 1 reduces different elements");
  EXPECT_EQ(FaultOf({{Step::Reduce(kFirst, {kFirst}, true), Step::Reduce(kFirst, {kFirst}, true)}}, {}),
            "rank 0 in round 0 reduces a result");
}

TEST(SymbolicRunTest, ExpressionsKeepTheOrderOfOperands) {
  SymbolicRun run(
      {{"test",
        1,
        {{Step::Send(1, kFirst), Step::Receive(1, kScratch), Step::Reduce(kFirst, {kFirst, kScratch}, true)}}},
       {"test",
        1,
        {{Step::Send(0, kFirst), Step::Receive(0, kScratch), Step::Reduce(kFirst, {kFirst, kScratch}, true)}}}},
      1);
  run.ContributeAll();
  ASSERT_TRUE(run.Run().ok());
  EXPECT_EQ(run.Describe(run.At(0, 0)), "finish(0+1)");
  EXPECT_EQ(run.Describe(run.At(1, 0)), "finish(1+0)");
  EXPECT_NE(run.At(0, 0), run.At(1, 0));
  EXPECT_TRUE(run.IsResult(run.At(1, 0), 0));
  EXPECT_FALSE(run.IsResult(run.At(1, 0), 1));
}

TEST(SymbolicRunTest, NewsTravelsOnlyFromRoundToRound) {
  // The token of rank 0 reaches rank 2 only if rank 1 waits for it first.
  const Piece token = {Buffer::kScratch, 0, 1};
  const Piece heard = {Buffer::kScratch, 1, 1};
  const Round both = {Step::Receive(0, heard), Step::Send(2, token)};
  for (const bool waits : {false, true}) {
    std::vector<Round> middle = {both};
    if (waits) middle = {{both[0]}, {both[1]}};
    SymbolicRun run(
        {{"test", 2, {{Step::Send(1, token)}}}, {"test", 2, middle}, {"test", 2, {{Step::Receive(1, heard)}}}}, 0);
    ASSERT_TRUE(run.Run().ok());
    EXPECT_EQ(run.HasHeardOfAll(2), waits);
  }
}

}  // namespace
}  // namespace farandole
