#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/job/evidence/flight_judge.h"
#include "server/job/evidence/ranks_to_ask.h"
#include "server/job/evidence/stack_groups.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using State = v1::FlightRecord;

// The flights of an epoch, rank by rank.
class FlightJudgeTest : public testing::Test {
 protected:
  void Add(uint32_t rank, const std::string& name, v1::FlightRecord::State state, uint64_t age_us, uint64_t batch = 0,
           uint32_t ordinal = 1, uint32_t group = 0) {
    v1::FlightRecords& flight = flights_[rank];
    v1::FlightRecord* const record = flight.add_records();
    record->set_name(static_cast<uint32_t>(flight.names_size()));
    flight.add_names(name);
    record->set_state(state);
    record->set_age_us(age_us);
    record->set_batch(batch);
    record->set_ordinal(ordinal);
    record->set_group(group);
    if (state == State::FINISHED || state == State::ENDED) record->set_ended_after_us(age_us / 2);
  }
  FlightFinding Judge(uint32_t size) { return JudgeFlights(flights_, size); }

  std::map<uint32_t, v1::FlightRecords> flights_;
};

TEST_F(FlightJudgeTest, TheRankThatHasNotSubmittedIsNamedWithWhatItFinishedLast) {
  for (uint32_t rank = 0; rank < 4; ++rank) Add(rank, "grad.17", State::FINISHED, 13'000'000, 412);
  for (uint32_t rank = 0; rank < 3; ++rank) Add(rank, "grad.18", State::SUBMITTED, 12'300'000 - rank);
  const FlightFinding finding = Judge(4);
  ASSERT_EQ(finding.waits.size(), 1u);
  EXPECT_THAT(finding.waits[0].waiting(), ElementsAre(0, 1, 2));
  EXPECT_THAT(finding.waits[0].missing(), ElementsAre(3));
  EXPECT_EQ(finding.sentence,
            "rank 3 finished 'grad.17' (batch 412) last and has not submitted allreduce 'grad.18', for which ranks 0-2 "
            "wait since 12.3 s");
}

TEST_F(FlightJudgeTest, TheSameNameOfTheStepBeforeIsNoSubmission) {
  for (uint32_t rank = 0; rank < 2; ++rank) Add(rank, "loss", State::FINISHED, 5'000'000, 7, 1);
  Add(0, "loss", State::SUBMITTED, 2'000'000, 0, 2);
  const FlightFinding finding = Judge(2);
  EXPECT_THAT(finding.sentence, HasSubstr("rank 1 finished 'loss' (batch 7) last and has not submitted"));
  EXPECT_EQ(finding.waits[0].ordinal(), 2u);
}

TEST_F(FlightJudgeTest, ARankThatWaitsInAnotherCollectiveIsSaidToDoSo) {
  for (uint32_t rank = 0; rank < 2; ++rank) Add(rank, "a", State::SUBMITTED, 3'000'000);
  Add(2, "b", State::SUBMITTED, 2'000'000);
  const FlightFinding finding = Judge(3);
  EXPECT_EQ(finding.sentence,
            "rank 2 has finished nothing, waits in 'b' itself and has not submitted allreduce 'a', for which ranks 0,1 "
            "wait since 3.0 s; rank 0 has finished nothing, waits in 'a' itself, rank 1 has finished nothing, waits in "
            "'a' itself and have not submitted allreduce 'b', for which rank 2 waits since 2.0 s");
}

TEST_F(FlightJudgeTest, OfAnEpochThatHasEndedTheWaitsUntilThenCount) {
  for (uint32_t rank = 0; rank < 2; ++rank) Add(rank, "a", State::ENDED, 8'000'000);
  flights_[2];
  const FlightFinding finding = Judge(3);
  EXPECT_EQ(finding.sentence,
            "rank 2 has finished nothing and has not submitted allreduce 'a', for which ranks 0,1 wait since 4.0 s");
}

TEST_F(FlightJudgeTest, OfARankWhoseRecorderWasNotReadNothingIsClaimed) {
  Add(0, "a", State::SUBMITTED, 1'000'000);
  EXPECT_THAT(Judge(2).sentence,
              HasSubstr("rank 1 (of whose last collectives nothing is known) and has not submitted"));
}

TEST_F(FlightJudgeTest, WhatAllHaveSubmittedMissesNobody) {
  Add(0, "a", State::STARTED, 2'000'000, 9);
  Add(1, "a", State::FINISHED, 2'000'000, 9);
  const FlightFinding finding = Judge(2);
  EXPECT_THAT(finding.waits[0].missing(), IsEmpty());
  EXPECT_EQ(finding.sentence, "all ranks have submitted allreduce 'a', and it is not finished on rank 0 after 2.0 s");
}

TEST_F(FlightJudgeTest, RanksOutsideAGroupAreNotMissing) {
  for (uint32_t rank = 1; rank < 3; ++rank) Add(rank, "g", State::FINISHED, 9'000'000, 3, 1, 5);
  Add(1, "g", State::SUBMITTED, 1'000'000, 0, 2, 5);
  const FlightFinding finding = Judge(4);
  EXPECT_THAT(finding.waits[0].missing(), ElementsAre(2));
  EXPECT_THAT(finding.sentence, HasSubstr("'g' of process set 5"));
}

TEST_F(FlightJudgeTest, WhereAllIsFinishedNobodyWaits) {
  for (uint32_t rank = 0; rank < 2; ++rank) Add(rank, "a", State::FINISHED, 1'000'000, 1);
  EXPECT_EQ(Judge(2).sentence, "");
  EXPECT_THAT(Judge(2).waits, IsEmpty());
}

v1::Evidence At(const std::string& function, uint32_t line) {
  v1::Evidence evidence;
  v1::StackFrame* const frame = evidence.add_threads()->add_frames();
  frame->set_function(function);
  frame->set_file("train.py");
  frame->set_line(line);
  return evidence;
}

TEST(StackGroupsTest, TheGreatestGroupIsDominantAndTheOthersFollow) {
  const std::vector<v1::StackGroup> groups =
      GroupStacks({{0, At("wait", 7)}, {1, At("load", 3)}, {2, At("wait", 7)}, {3, v1::Evidence()}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[0].ranks(), ElementsAre(0, 2));
  EXPECT_TRUE(groups[0].is_dominant());
  EXPECT_THAT(groups[1].ranks(), ElementsAre(1));
  EXPECT_EQ(groups[1].frames(0).function(), "load");
}

TEST(StackGroupsTest, OfEqualGroupsNoneIsDominant) {
  const std::vector<v1::StackGroup> groups = GroupStacks({{0, At("a", 1)}, {1, At("a", 2)}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_FALSE(groups[0].is_dominant());
}

TEST(RanksToAskTest, OfASmallEpochAllAreAsked) {
  for (uint32_t size = 0; size <= 8; ++size) {
    EXPECT_EQ(RanksToAsk({1, 2}, {2, 3}, size).size(), size);
  }
}

TEST(RanksToAskTest, OfALargeEpochThoseThatOthersWaitForAndThoseThatAreBlamedComeFirst) {
  std::vector<uint32_t> missing;
  for (uint32_t rank = 1000; rank < 1100; ++rank) missing.push_back(rank);
  const std::vector<uint32_t> asked = RanksToAsk(missing, {500, 1001, 9999}, 4096);
  ASSERT_EQ(asked.size(), 128u);
  EXPECT_EQ(asked[0], 0u);
  EXPECT_EQ(asked[62], 62u);
  EXPECT_EQ(asked[63], 500u) << "in the place of rank 63";
  EXPECT_EQ(asked[64], 1000u);
  EXPECT_EQ(asked[127], 1063u);
  EXPECT_EQ(RanksToAsk({}, {}, 4096).size(), 64u);
}

v1::Evidence Native(const std::vector<std::string>& functions, uint32_t line = 0) {
  v1::Evidence evidence;
  v1::ThreadStack* const thread = evidence.add_threads();
  for (const std::string& function : functions) {
    v1::StackFrame* const frame = thread->add_native_frames();
    frame->set_function(function);
    frame->set_module(function.rfind("fd_", 0) == 0 ? "libfarandole.so" : "train");
    frame->set_line(line);
  }
  return evidence;
}

TEST(StackGroupsTest, OfCompiledProgramsTheFunctionsDecideDownToTheCallOfThisLibrary) {
  const std::vector<v1::StackGroup> groups =
      GroupStacks({{0, Native({"futex", "fd_sleep", "fd_wait", "step", "main"}, 1)},
                   {1, Native({"poll", "fd_wait", "step", "main"}, 2)},
                   {2, Native({"read", "load", "main"})},
                   {3, Native({})}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[0].ranks(), ElementsAre(0, 1));
  EXPECT_TRUE(groups[0].is_dominant());
  EXPECT_EQ(groups[0].native_frames(0).function(), "futex");
  EXPECT_THAT(groups[1].ranks(), ElementsAre(2));
}

TEST(StackGroupsTest, NativeFramesOfAProgramInPythonDivideNoGroup) {
  v1::Evidence with_native = At("wait", 7);
  with_native.mutable_threads(0)->add_native_frames()->set_function("sleep");
  const std::vector<v1::StackGroup> groups = GroupStacks({{0, At("wait", 7)}, {1, with_native}});
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].native_frames(0).function(), "sleep");
}

TEST(StackGroupsTest, AThreadThatCannotBeStoppedIsToldApart) {
  v1::Evidence stuck;
  stuck.add_threads()->set_why_no_native("it is in the kernel");
  EXPECT_EQ(GroupStacks({{0, Native({"read", "main"})}, {1, stuck}}).size(), 2u);
}

TEST_F(FlightJudgeTest, NothingIsMissingOnARankWhoseRecorderIsFull) {
  Add(0, "late", State::SUBMITTED, 1'000'000);
  Add(1, "early", State::SUBMITTED, 2'000'000);
  EXPECT_THAT(Judge(2).waits[1].missing(), ElementsAre(1));
  flights_[1].set_unrecorded(7);
  const FlightFinding finding = Judge(2);
  ASSERT_EQ(finding.waits.size(), 2u);
  EXPECT_THAT(finding.waits[0].missing(), ElementsAre(0));
  EXPECT_THAT(finding.waits[1].missing(), IsEmpty());
}

}  // namespace
}  // namespace farandole
