// The largest Steps that one client makes which acts as thousands of workers. Tenants take turns on a job loop between
// Steps, so that none may take long.

#include <algorithm>
#include <ctime>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/job/job.h"
#include "server/job/members/accusations.h"
#include "server/job/script.h"
#include "server/job/test_shell.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

// As many workers as a job may have.
constexpr uint32_t kSize = 4096;
// A Step takes less than 50 ms of a processor; another one may be four times as slow.
constexpr double kMostSeconds = 0.2;

// As long as a name may be, and different from another one at its end only.
std::string LongName(uint32_t number) {
  std::string name(512, 'n');
  const std::string end = absl::StrCat(number);
  return name.replace(name.size() - end.size(), end.size(), end);
}

// Time of a processor that it takes.
template <typename Function>
double SecondsOf(const Function& function) {
  const std::clock_t before = std::clock();
  function();
  return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

JobOptions Options() {
  JobOptions options;
  // The test sends no heartbeats.
  options.silence_limit = absl::Hours(24);
  return options;
}

v1::Hello HelloOf(uint32_t rank) {
  v1::Hello hello;
  hello.set_job("mnist");
  hello.set_incarnation(IncarnationOf(absl::StrCat("w", rank)));
  hello.set_epoch(1);
  return hello;
}

v1::WorkerMessage Ready(const std::string& name, v1::OpType op = v1::OP_TYPE_ALLREDUCE, uint32_t group = 0) {
  v1::WorkerMessage message;
  message.mutable_ready()->set_name(name);
  message.mutable_ready()->set_group(group);
  message.mutable_ready()->set_op(op);
  message.mutable_ready()->add_shape(1);
  return message;
}

class LargestStepsTest : public testing::Test {
 protected:
  // Measures the Step, whose actions it gives.
  Actions Step(const Event& event) {
    Actions actions;
    longest_ = std::max(longest_, SecondsOf([&] { actions = shell_.Step(event); }));
    for (const Output& output : actions.outputs) {
      const auto* send = std::get_if<Send>(&output);
      if (send != nullptr && send->message->has_stall_notice()) notice_ = send->message->stall_notice().sentence();
      if (send != nullptr && send->message->has_stall_inquiry()) inquiry_ = send->message->stall_inquiry().inquiry();
      sends_ += send != nullptr ? 1 : 0;
    }
    return actions;
  }
  Actions Say(uint32_t rank, const v1::WorkerMessage& message) {
    return Step(MessageReceived{streams_[rank], message});
  }
  // Takes the ticks that are due within the time.
  void Pass(absl::Duration duration) {
    const absl::Time until = shell_.now() + duration;
    while (shell_.next_tick() <= until) {
      shell_.Oversleep(std::max(absl::ZeroDuration(), shell_.next_tick() - shell_.now()));
      Step(Ticked{});
    }
  }
  bool IsShort() const { return longest_ < kMostSeconds; }
  void TearDown() override { RecordProperty("longest_step_us", static_cast<int>(longest_ * 1e6)); }

  TestShell shell_{Options()};
  std::vector<StreamId> streams_ = shell_.FormEpoch(kSize);
  double longest_ = 0;
  std::string notice_;
  uint64_t inquiry_ = 0;
  size_t sends_ = 0;
};

TEST_F(LargestStepsTest, EachRankWaitsForOtherTensors) {
  const auto report = [this](uint32_t rank) {
    v1::WorkerMessage message;
    message.mutable_stall_report()->set_epoch(1);
    message.mutable_stall_report()->set_inquiry(inquiry_);
    for (uint32_t i = 0; i < 64; ++i) {
      v1::PendingTensor* const pending = message.mutable_stall_report()->add_pending();
      pending->set_name(LongName(rank * 64 + i));
      pending->set_age_ms(120'000 + i);
    }
    Say(rank, message);
  };
  report(0);
  Pass(absl::Seconds(1) / 2);
  ASSERT_NE(inquiry_, 0u) << "the ranks are asked";
  for (uint32_t rank = 0; rank < kSize && IsShort(); ++rank) report(rank);
  EXPECT_LT(longest_, kMostSeconds);
  EXPECT_THAT(notice_, HasSubstr(" has waited 120")) << "some of them are told all the same";
}

TEST_F(LargestStepsTest, ARankJoinsWhileAsManyNamesWaitAsMay) {
  for (uint32_t number = 0; number < JobOptions().max_slots && IsShort(); ++number) Say(0, Ready(LongName(number)));
  for (uint32_t rank = 1; rank < 1024 && IsShort(); ++rank) Say(rank, Ready("join", v1::OP_TYPE_JOIN));
  EXPECT_LT(longest_, kMostSeconds);
}

TEST_F(LargestStepsTest, TheLastRankThatJoinsDecidesManyNames) {
  constexpr uint32_t kNames = 512;
  for (uint32_t number = 0; number < kNames; ++number) Say(0, Ready(LongName(number)));
  for (uint32_t rank = 1; rank < kSize && IsShort(); ++rank) Say(rank, Ready("join", v1::OP_TYPE_JOIN));
  Pass(absl::Seconds(1));
  EXPECT_EQ(sends_, kNames * kSize) << "each rank is told of each name";
  EXPECT_LT(longest_, kMostSeconds);
}

TEST_F(LargestStepsTest, AllThatLaunchersReadOfWorkersDiffers) {
  Step(AbortRequested{shell_.NewCall(), "enough", false});
  longest_ = 0;
  for (uint32_t first = 0; first < kSize && IsShort(); first += 64) {
    FlightReported report{shell_.NewCall(), {}};
    for (uint32_t rank = first; rank < first + 64; ++rank) {
      v1::FlightRecords* const flight = report.request.add_flights();
      flight->set_epoch(1);
      flight->set_rank(rank);
      for (uint32_t i = 0; i < 512; ++i) {
        flight->add_names(LongName(rank * 512 + i).substr(400));
        v1::FlightRecord* const record = flight->add_records();
        record->set_name(i);
        record->set_ordinal(1);
        record->set_state(v1::FlightRecord::ENDED);
        record->set_ended_after_us(1'000'000 + i);
      }
    }
    Step(report);
  }
  const Actions asked = Step(EvidenceRequested{shell_.NewCall(), true});
  const auto& answer = std::get<v1::DiagnoseResponse>(std::get<Reply>(asked.outputs.back()).message);
  EXPECT_EQ(answer.waits_size(), 16);
  EXPECT_EQ(answer.ranks_size(), static_cast<int>(kSize));
  EXPECT_LT(longest_, kMostSeconds);
}

// Half of the ranks are slow, and all mark as many sections as a job may have.
TEST_F(LargestStepsTest, ManyRanksAreSlowInManySections) {
  constexpr uint32_t kSections = 32;
  const auto is_slow = [](uint32_t rank) { return rank < (kSize - 1) / 2; };
  for (uint64_t beat = 1; beat <= 40 && IsShort(); ++beat) {
    v1::WorkerMessage message;
    v1::Heartbeat* const heartbeat = message.mutable_heartbeat();
    heartbeat->set_epoch(1);
    v1::Measures* const measures = heartbeat->mutable_measures();
    measures->set_interval_us(500'000);
    for (uint32_t rank = 0; rank < kSize; ++rank) {
      heartbeat->add_pulses()->set_rank(rank);
      heartbeat->mutable_pulses()->rbegin()->set_beat(beat);
      measures->add_steps(5);
      measures->add_waited_us(is_slow(rank) ? 0 : 400'000);
      measures->add_cpu_us(is_slow(rank) ? 500'000 : 100'000);
    }
    for (uint32_t section = 0; section < kSections; ++section) {
      measures->add_sections(absl::StrCat("s", section));
      for (uint32_t rank = 0; rank < kSize; ++rank)
        measures->add_section_us(section == 7 && is_slow(rank) ? 400'000 : (rank * 7919 + section) % 1000);
    }
    shell_.Oversleep(absl::Seconds(1) / 2);
    Say(0, message);
  }
  const Actions asked = Step(JobInspected{shell_.NewCall(), std::nullopt});
  const auto& answer = std::get<v1::GetJobResponse>(std::get<Reply>(asked.outputs.back()).message);
  ASSERT_EQ(answer.diagnosis().blockers_size(), 5);
  EXPECT_THAT(answer.diagnosis().blockers(0).sentence(), HasSubstr("slow compute; its 's7' section takes 80 ms"));
  EXPECT_LT(longest_, kMostSeconds);
}

TEST_F(LargestStepsTest, AllRanksOfAStallAreAskedForGroups) {
  const auto report = [this](uint32_t rank) {
    v1::WorkerMessage message;
    message.mutable_stall_report()->set_epoch(1);
    message.mutable_stall_report()->set_inquiry(inquiry_);
    message.mutable_stall_report()->set_group_requests(rank == 0 ? 0 : 1);
    if (rank != 0) return Say(rank, message);
    v1::PendingTensor* const pending = message.mutable_stall_report()->add_pending();
    pending->set_name("grad");
    pending->set_age_ms(120'000);
    return Say(rank, message);
  };
  report(0);
  Pass(absl::Seconds(1) / 2);
  ASSERT_NE(inquiry_, 0u) << "the ranks are asked";
  for (uint32_t rank = 0; rank < kSize && IsShort(); ++rank) report(rank);
  Pass(absl::Seconds(5));
  EXPECT_LT(longest_, kMostSeconds);
}

TEST_F(LargestStepsTest, AllHaveHeardManyMismatchesOfANameThatGetsASlot) {
  for (uint32_t rank = 1; rank < kSize; ++rank) Say(rank, Ready("join", v1::OP_TYPE_JOIN));
  for (uint32_t ordinal = 0; ordinal < 100; ++ordinal) {
    v1::WorkerMessage wrong = Ready("grad");
    wrong.mutable_ready()->set_dtype(static_cast<v1::DType>(99));
    wrong.mutable_ready()->set_ordinal(ordinal);
    Say(0, wrong);
  }
  longest_ = 0;
  v1::WorkerMessage right = Ready("grad");
  right.mutable_ready()->set_ordinal(100);
  Say(0, right);
  EXPECT_LT(longest_, 0.05) << "of the Step that gives the slot";
}

TEST(LargestSurveyTest, RanksTellOfAsManyDifferentCollectivesAsTheyMay) {
  constexpr uint32_t kAsked = 128;
  TestShell shell(Options());
  const std::vector<StreamId> streams = shell.FormEpoch(kAsked);
  uint64_t inquiry = 0;
  uint32_t asked = 0;
  for (const Output& output : shell.Step(CollectivesSurveyed{shell.NewCall()}).outputs) {
    const auto* send = std::get_if<Send>(&output);
    if (send == nullptr || !send->message->has_evidence_wanted()) continue;
    inquiry = send->message->evidence_wanted().inquiry();
    ++asked;
  }
  double longest = 0;
  for (uint32_t rank = 0; rank < kAsked; ++rank) {
    v1::WorkerMessage message;
    message.mutable_evidence()->set_epoch(1);
    message.mutable_evidence()->set_inquiry(inquiry);
    v1::FlightRecords* const flight = message.mutable_evidence()->mutable_flight();
    for (uint32_t i = 0; i < 512; ++i) {
      flight->add_names(LongName(rank * 512 + i).substr(400));
      flight->add_times()->set_name(LongName((kAsked + rank) * 512 + i).substr(400));
      flight->mutable_times(static_cast<int>(i))->set_finished(1);
      v1::FlightRecord* const record = flight->add_records();
      record->set_name(i);
      record->set_ordinal(1);
      record->set_state(v1::FlightRecord::FINISHED);
    }
    longest = std::max(longest, SecondsOf([&] { shell.Step(MessageReceived{streams[rank], message}); }));
  }
  EXPECT_GT(asked, 60u);
  EXPECT_LT(longest, kMostSeconds);
}

TEST(LargestReattachmentTest, GroupsReachedFewRanks) {
  constexpr uint32_t kRanks = 256;
  constexpr uint32_t kGroups = 256;
  TestShell shell(Options());
  std::vector<StreamId> streams = shell.FormEpoch(kRanks);
  const auto request = [](uint32_t group) {
    v1::WorkerMessage message;
    message.mutable_group_request()->set_epoch(1);
    message.mutable_group_request()->set_ordinal(group);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      if (rank != group % kRanks) message.mutable_group_request()->add_ranks(rank);
    }
    return message;
  };
  for (uint32_t group = 1; group <= kGroups; ++group) {
    for (const StreamId stream : streams) shell.Step(MessageReceived{stream, request(group)});
  }
  shell.Restart([](const Actions&) {});
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    v1::Hello hello = HelloOf(rank);
    for (uint32_t group = 1; rank == 0 && group <= kGroups; ++group) {
      hello.add_groups()->set_number(group);
      *hello.mutable_groups()->rbegin()->mutable_ranks() = request(group).group_request().ranks();
    }
    streams[rank] = shell.NewStream();
    shell.Step(StreamOpened{streams[rank], hello});
  }
  for (uint32_t group = kGroups; group > kGroups - 16; --group) {
    for (const StreamId stream : streams) shell.Step(MessageReceived{stream, request(group)});
  }
  shell.Oversleep(shell.next_tick() - shell.now());
  EXPECT_LT(SecondsOf([&] { shell.Step(Ticked{}); }), kMostSeconds);
}

// The sends of the ticks that are due within the second, as `seen` gets them, and the longest of these Steps.
double LongestTick(TestShell* shell, const std::function<void(const Send&)>& seen) {
  double longest = 0;
  const absl::Time until = shell->now() + absl::Seconds(1);
  while (shell->next_tick() <= until) {
    shell->Oversleep(std::max(absl::ZeroDuration(), shell->next_tick() - shell->now()));
    Actions actions;
    longest = std::max(longest, SecondsOf([&] { actions = shell->Step(Ticked{}); }));
    EXPECT_LE(actions.outputs.size(), 3 * 4096u);
    for (const Output& output : actions.outputs) {
      if (const auto* send = std::get_if<Send>(&output)) seen(*send);
    }
  }
  return longest;
}

TEST(LargestReattachmentTest, AllRanksHaveRepeatedMuchWhenTheLastOneComesBack) {
  constexpr uint32_t kRanks = 16, kNames = 16'384;
  TestShell shell(Options());
  std::vector<StreamId> streams = shell.FormEpoch(kRanks);
  shell.Restart([](const Actions&) {});
  for (uint32_t rank = 0; rank + 1 < kRanks; ++rank) {
    streams[rank] = shell.NewStream();
    shell.Step(StreamOpened{streams[rank], HelloOf(rank)});
    for (uint32_t name = 0; name < kNames; ++name)
      shell.Step(MessageReceived{streams[rank], Ready(absl::StrCat("n", name))});
  }
  const StreamId last = streams.back() = shell.NewStream();
  double longest = SecondsOf([&] { shell.Step(StreamOpened{last, HelloOf(kRanks - 1)}); });
  // It comes behind those that are held, and decides the first name.
  longest = std::max(longest, SecondsOf([&] { shell.Step(MessageReceived{last, Ready("n0")}); }));
  std::vector<std::string> slots;
  longest = std::max(longest, LongestTick(&shell, [&](const Send& send) {
                       if (send.message->has_slot_assigned()) slots.push_back(send.message->slot_assigned().name());
                     }));
  EXPECT_THAT(slots, ::testing::ElementsAreArray(std::vector<std::string>(kRanks, "n0")));
  EXPECT_LT(longest, kMostSeconds);
  EXPECT_THAT(shell.broken(), ::testing::IsEmpty());
}

// Its statement was considered in an early Step, and the answer follows in a late one.
TEST(LargestReattachmentTest, ARankThatIsAwayWhileTheOthersAreHeardGetsItsAnswerWhenItIsBack) {
  constexpr uint32_t kNames = 6000;
  TestShell shell(Options());
  std::vector<StreamId> streams = shell.FormEpoch(2);
  shell.Restart([](const Actions&) {});
  streams[0] = shell.NewStream();
  shell.Step(StreamOpened{streams[0], HelloOf(0)});
  v1::WorkerMessage other = Ready("grad");
  other.mutable_ready()->set_shape(0, 2);
  shell.Step(MessageReceived{streams[0], other});
  for (uint32_t name = 0; name < kNames; ++name) shell.Step(MessageReceived{streams[0], Ready(absl::StrCat(name))});
  streams[1] = shell.NewStream();
  shell.Step(StreamOpened{streams[1], HelloOf(1)});
  shell.Step(MessageReceived{streams[1], Ready("grad")});
  shell.Close(streams[0], "cut");
  std::vector<StreamId> told;
  const auto tell = [&](const Send& send) {
    if (send.message->has_mismatch()) told.push_back(send.stream);
  };
  LongestTick(&shell, tell);
  EXPECT_THAT(told, ::testing::ElementsAre(streams[1]));
  streams[0] = shell.NewStream();
  shell.Step(StreamOpened{streams[0], HelloOf(0)});
  for (const Output& output : shell.Step(MessageReceived{streams[0], other}).outputs) {
    if (const auto* send = std::get_if<Send>(&output)) tell(*send);
  }
  EXPECT_THAT(told, ::testing::ElementsAre(streams[1], streams[0]));
}

TEST(LargestReattachmentTest, RankZeroComesBackWithoutTheSlotsOfAGroupThatItIsNotIn) {
  constexpr uint32_t kNames = 8192;
  TestShell shell(Options());
  std::vector<StreamId> streams = shell.FormEpoch(2);
  v1::WorkerMessage request;
  request.mutable_group_request()->set_epoch(1);
  request.mutable_group_request()->set_ordinal(1);
  request.mutable_group_request()->add_ranks(1);
  for (const StreamId stream : streams) shell.Step(MessageReceived{stream, request});
  for (uint32_t name = 0; name < kNames; ++name)
    shell.Step(MessageReceived{streams[1], Ready(absl::StrCat(name), v1::OP_TYPE_ALLREDUCE, 1)});
  shell.Close(streams[0], "cut");
  v1::Hello hello = HelloOf(0);
  hello.add_groups()->set_number(1);
  hello.mutable_groups(0)->add_ranks(1);
  streams[0] = shell.NewStream();
  std::set<std::string> told;
  const auto tell = [&](const Send& send) {
    if (!send.message->has_slot_assigned()) return;
    EXPECT_TRUE(told.insert(send.message->slot_assigned().name()).second);
  };
  Actions attached;
  double longest = SecondsOf([&] { attached = shell.Step(StreamOpened{streams[0], hello}); });
  EXPECT_LE(attached.outputs.size(), 600u) << "others have their turn";
  for (const Output& output : attached.outputs) {
    if (const auto* send = std::get_if<Send>(&output)) tell(*send);
  }
  longest = std::max(longest, LongestTick(&shell, tell));
  EXPECT_EQ(told.size(), kNames);
  EXPECT_LT(longest, kMostSeconds);
  EXPECT_THAT(shell.broken(), ::testing::IsEmpty());
}

TEST(LargestHeartbeatTest, ItHasNoMoreLoggedPointsThanAWorkerSends) {
  TestShell shell(Options());
  const std::vector<StreamId> streams = shell.FormEpoch(1);
  v1::WorkerMessage message;
  v1::Heartbeat* const heartbeat = message.mutable_heartbeat();
  heartbeat->set_epoch(1);
  heartbeat->add_pulses();
  for (int part = 0; part < 2; ++part) {
    v1::LoggedPoints* const points = heartbeat->add_logged();
    points->set_epoch(1);
    points->set_first(part * 2048 + 1);
    points->add_names("loss");
    points->add_by_rank(true);
    for (int point = 0; point < 2048; ++point) {
      points->add_name(0);
      points->add_step(8192 - part * 2048 - point);
      points->add_value(1);
      points->add_age_ms(0);
    }
  }
  EXPECT_LT(SecondsOf([&] { shell.Step(MessageReceived{streams[0], message}); }), kMostSeconds);
  EXPECT_TRUE(shell.IsOpen(streams[0]));
  heartbeat->mutable_logged(1)->add_name(0);
  heartbeat->mutable_logged(1)->add_step(1);
  heartbeat->mutable_logged(1)->add_value(1);
  heartbeat->mutable_logged(1)->add_age_ms(0);
  std::string sentence;
  for (const Output& output : shell.Step(MessageReceived{streams[0], message}).outputs) {
    if (const auto* close = std::get_if<CloseStream>(&output)) sentence = std::string(close->status.message());
  }
  EXPECT_THAT(sentence, HasSubstr("logged points of one heartbeat"));
}

TEST(LargestAccusationsTest, ThousandsOfHostsHaveBrokenLinks) {
  v1::Epoch epoch;
  for (uint32_t rank = 0; rank < kSize; ++rank) {
    v1::Member* const member = epoch.add_members();
    member->set_host_id(absl::StrCat(std::string(120, 'h'), rank));
    member->set_incarnation(IncarnationOf(absl::StrCat("w", rank)));
  }
  const Roster roster(epoch, absl::Seconds(3));
  Accusations accusations(nullptr);
  BrokenLinks links;
  double longest = 0;
  const auto measure = [&longest](const auto& step) { longest = std::max(longest, SecondsOf(step)); };
  for (uint32_t distance = 1; distance <= 4; ++distance) {
    for (uint32_t rank = 0; rank < kSize; ++rank)
      measure([&] { accusations.Add(rank, (rank + distance) % kSize, std::string(400, 'e'), absl::UnixEpoch()); });
  }
  std::vector<Roster::Loss> losses;
  measure([&] { losses = accusations.Judge(roster, &links, absl::UnixEpoch()); });
  EXPECT_GT(losses.size(), 1000u);
  measure([&] { EXPECT_NE(roster.DescribeLosses(losses), ""); });
  EXPECT_LT(longest, kMostSeconds);
}

}  // namespace
}  // namespace farandole
