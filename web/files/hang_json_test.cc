#include "web/files/hang_json.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

// Rank 2 of four has not submitted "b"; rank 3 does not answer.
v1::DiagnoseResponse Stuck() {
  v1::DiagnoseResponse answer;
  answer.set_epoch(4);
  answer.set_size(4);
  answer.set_stalled_unix_ms(1'700'000'000'000);
  answer.set_sentence("rank 2 has not submitted allreduce 'b'");
  v1::FlightWait* const wait = answer.add_waits();
  wait->set_name("b");
  for (const uint32_t rank : {0u, 1u}) wait->add_waiting(rank);
  wait->add_missing(2);
  wait->set_waited_us(12'340'000);
  for (const uint32_t rank : {0u, 1u, 2u, 3u}) {
    v1::RankEvidence* const one = answer.add_ranks();
    one->set_rank(rank);
    if (rank == 3) {
      one->set_silence("it did not answer within 4 s");
      continue;
    }
    v1::Evidence* const evidence = one->mutable_evidence();
    evidence->set_about_stacks("read with the interpreter's lock");
    if (rank != 1) evidence->add_threads()->set_name("MainThread");
    evidence->add_settings(absl::StrCat("rank=", rank));
    evidence->add_kernel_threads()->set_state("sleeping");
    evidence->mutable_flight()->add_names("a");
    for (int i = 0; i < 40; ++i) {
      v1::FlightRecord* const record = evidence->mutable_flight()->add_records();
      record->set_batch(static_cast<uint64_t>(i));
      record->set_state(v1::FlightRecord::FINISHED);
      record->set_ended_after_us(1500);
    }
  }
  return answer;
}

TEST(HangJsonTest, WaitsNameBothGroupsOfRanks) {
  const Json json = HangJson(Stuck());
  EXPECT_EQ(json["epoch"], 4);
  EXPECT_EQ(json["answered"], 3);
  EXPECT_EQ(json["stalled_unix_ms"], 1'700'000'000'000);
  ASSERT_EQ(json["waits"].size(), 1u);
  EXPECT_EQ(json["waits"][0]["op"], "allreduce");
  EXPECT_EQ(json["waits"][0]["waited_ms"], 12'340.0);
  EXPECT_EQ(json["waits"][0]["waiting"], (Json{{"text", "ranks 0,1"}, {"count", 2}, {"first", 0}}));
  EXPECT_EQ(json["waits"][0]["missing"], (Json{{"text", "rank 2"}, {"count", 1}, {"first", 2}}));
}

TEST(HangJsonTest, RecordersAreThoseOfTheMissingRankAndOfOneThatWaits) {
  const Json recorders = HangJson(Stuck())["recorders"];
  ASSERT_EQ(recorders.size(), 2u);
  EXPECT_EQ(recorders[0]["rank"], 2);
  EXPECT_EQ(recorders[0]["is_missing"], true);
  EXPECT_EQ(recorders[1]["rank"], 0);
  EXPECT_EQ(recorders[1]["is_missing"], false);
  // The latest, the oldest of them first.
  ASSERT_EQ(recorders[0]["records"].size(), 32u);
  EXPECT_EQ(recorders[0]["records"][0]["batch"], 8);
  EXPECT_EQ(recorders[0]["records"][31]["batch"], 39);
  EXPECT_EQ(recorders[0]["records"][0]["name"], "a");
  EXPECT_EQ(recorders[0]["records"][0]["state"], "finished");
  EXPECT_EQ(recorders[0]["records"][0]["ended_after_ms"], 1.5);
}

TEST(HangJsonTest, OfRanksThatWaitForEachOtherTheFewerComeFirst) {
  v1::DiagnoseResponse answer = Stuck();
  answer.clear_waits();
  v1::FlightWait* const first = answer.add_waits();
  first->add_waiting(2);
  first->add_missing(0);
  first->add_missing(1);
  v1::FlightWait* const second = answer.add_waits();
  second->add_waiting(0);
  second->add_waiting(1);
  second->add_missing(2);
  const Json recorders = HangJson(answer)["recorders"];
  ASSERT_EQ(recorders.size(), 3u);
  EXPECT_EQ(recorders[0]["rank"], 2);
  EXPECT_EQ(recorders[1]["rank"], 0);
}

TEST(HangJsonTest, RanksWithoutAnAnswerOrStacksAreTold) {
  const Json silent = HangJson(Stuck())["silent"];
  ASSERT_EQ(silent.size(), 2u);
  EXPECT_EQ(silent[0]["ranks"]["text"], "rank 3");
  EXPECT_EQ(silent[1]["ranks"]["text"], "rank 1");
  EXPECT_EQ(silent[1]["why"], "no stacks: read with the interpreter's lock");
}

TEST(HangJsonTest, StacksHaveTheCallsOfCompiledCode) {
  v1::DiagnoseResponse answer = Stuck();
  v1::StackGroup* const group = answer.add_stacks();
  group->add_ranks(0);
  group->add_frames()->set_function("wait");
  group->add_native_frames()->set_function("sleep");
  group->mutable_native_frames(0)->set_module("libc.so.6");
  answer.mutable_ranks(0)->mutable_evidence()->set_about_native_stacks("read by ptrace");
  const Json stacks = HangJson(answer)["stacks"];
  ASSERT_EQ(stacks.size(), 1u);
  ASSERT_EQ(stacks[0]["native_frames"].size(), 1u);
  EXPECT_EQ(stacks[0]["native_frames"][0],
            (Json{{"function", "sleep"}, {"file", ""}, {"line", 0}, {"module", "libc.so.6"}}));
  EXPECT_EQ(stacks[0]["about_native"], "read by ptrace");
  EXPECT_EQ(stacks[0]["frames"][0]["function"], "wait");
  EXPECT_EQ(HangJson(answer)["silent"][1]["why"], "no native stacks: read by ptrace");
}

TEST(HangJsonTest, SettingsAreThoseOfOneRank) { EXPECT_EQ(HangJson(Stuck())["settings"], Json::array({"rank=0"})); }

TEST(HangJsonTest, ALargeJobIsABoundedPage) {
  v1::DiagnoseResponse answer;
  answer.set_size(20'000);
  v1::FlightWait* const wait = answer.add_waits();
  for (uint32_t rank = 0; rank < 20'000; rank += 2) {
    wait->add_waiting(rank);
    wait->add_missing(rank + 1);
    v1::FlightRecords* const flight = answer.add_ranks()->mutable_evidence()->mutable_flight();
    answer.mutable_ranks(answer.ranks_size() - 1)->set_rank(rank + 1);
    for (int i = 0; i < 40; ++i) flight->add_records();
  }
  for (int group = 0; group < 100; ++group) {
    v1::StackGroup* const stacks = answer.add_stacks();
    stacks->add_ranks(1);
    for (int i = 0; i < 100; ++i) stacks->add_frames()->set_function("f");
  }
  const Json json = HangJson(answer);
  EXPECT_EQ(json["recorders"].size(), 8u);
  EXPECT_EQ(json["stacks"].size(), 16u);
  EXPECT_EQ(json["stacks"][0]["frames"].size(), 40u);
  EXPECT_EQ(json["stacks"][0]["more_frames"], 60);
  EXPECT_LT(json.dump().size(), 150'000u);
}

TEST(HangJsonTest, WhereNobodyWaitsTheFirstRanksAreShown) {
  v1::DiagnoseResponse answer = Stuck();
  answer.clear_waits();
  const Json recorders = HangJson(answer)["recorders"];
  ASSERT_EQ(recorders.size(), 2u);
  EXPECT_EQ(recorders[1]["rank"], 1);
  EXPECT_EQ(recorders[1]["is_missing"], false);
}

}  // namespace
}  // namespace farandole
