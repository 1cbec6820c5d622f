#include "server/job/job.h"

#include <random>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "farandole/v1/store.pb.h"
#include "gtest/gtest.h"
#include "server/job/members/fence.h"
#include "server/job/rules/bounds.h"
#include "server/job/rules/history.h"
#include "server/job/script.h"
#include "server/job/test_shell.h"

namespace farandole {
namespace {

absl::Status Restore(const std::string& key, const std::string& value) {
  return Job::Restore(
             "acme", "mnist", JobOptions(), [](size_t count) { return std::string(count, 'r'); }, {{key, value}},
             absl::UnixEpoch())
      .status();
}

TEST(JobRestoreTest, NamesTheRowThatItCannotRead) {
  EXPECT_EQ(Restore("job/acme/mnist", "\xFF").message(), "row job/acme/mnist is not a job's record");
  EXPECT_EQ(Restore("grant/acme/mnist/1", "\xFF").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Restore("checkpoint/acme/mnist/c/1", "\xFF").code(), absl::StatusCode::kDataLoss);
  v1::JobRecord record;
  record.set_state(v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Restore("job/acme/mnist", record.SerializeAsString()).message(),
            "row job/acme/mnist says that the job runs, and its epoch has no members");
  record.mutable_epoch()->add_members();
  EXPECT_EQ(Restore("job/acme/mnist", record.SerializeAsString()).message(),
            "row job/acme/mnist says that epoch 0 has 0 members, and 1 are kept");
  record.set_size(1);
  record.add_left(1);
  EXPECT_EQ(Restore("job/acme/mnist", record.SerializeAsString()).message(),
            "row job/acme/mnist says that rank 1 left, and its epoch has 1 rank");
}

TEST(JobTest, ANewJobIsIdleAndWantsNoTick) {
  TestShell shell{JobOptions()};
  EXPECT_TRUE(shell.job().IsIdle());
  EXPECT_EQ(shell.Step(Ticked{}).next_tick, absl::InfiniteFuture());
}

TEST(JobTest, TimeThatGoesBackIsTakenAsTheLatestSeen) {
  Job job("acme", "mnist", JobOptions(), [](size_t count) { return std::string(count, 'r'); });
  JoinRequested event{1, {}};
  event.request.set_job("mnist");
  event.request.mutable_member()->set_incarnation(IncarnationOf("w0"));
  event.request.mutable_member()->set_host_id("a");
  event.request.mutable_member()->set_pid(1);
  event.request.set_wanted_size(2);
  event.request.set_protocol_version(kProtocolVersion);
  event.request.set_join_timeout_ms(5000);
  event.request.set_stall_warning_ms(1000);
  const absl::Time now = absl::FromUnixSeconds(1000);
  EXPECT_EQ(job.Step(event, now).next_tick, now + absl::Seconds(5));
  EXPECT_EQ(job.Step(Ticked{}, now - absl::Hours(1)).next_tick, now + absl::Seconds(5));
  EXPECT_EQ(job.Summary().state(), v1::JOB_STATE_FORMING);
}

TEST(JobTest, MeasuresOutOfBoundsAreRefused) {
  v1::WorkerMessage message;
  v1::Heartbeat* beat = message.mutable_heartbeat();
  beat->add_pulses()->set_rank(0);
  beat->add_pulses()->set_rank(1);
  for (const uint64_t us : {10, 20}) beat->mutable_measures()->add_waited_us(us);
  EXPECT_TRUE(CheckMessage(message, 2).ok());
  beat->mutable_measures()->add_waited_us(30);
  EXPECT_EQ(CheckMessage(message, 2).message(), "the measures' column waited_us has 3 numbers for 2 pulses");
  beat->mutable_measures()->clear_waited_us();
  beat->mutable_measures()->add_late_ranks(2);
  EXPECT_EQ(CheckMessage(message, 2).code(), absl::StatusCode::kInvalidArgument);
  beat->mutable_measures()->set_late_ranks(0, 1);
  EXPECT_TRUE(CheckMessage(message, 2).ok());
  for (int late = 0; late < 32; ++late) beat->mutable_measures()->add_late_ranks(0);
  EXPECT_FALSE(CheckMessage(message, 2).ok());
}

TEST(JobTest, SectionsAndPeerHostsOutOfBoundsAreRefused) {
  v1::WorkerMessage message;
  v1::Heartbeat* beat = message.mutable_heartbeat();
  beat->add_pulses()->set_rank(0);
  beat->add_pulses()->set_rank(1);
  v1::Measures* measures = beat->mutable_measures();
  measures->add_sections("data");
  measures->add_section_us(10);
  EXPECT_EQ(CheckMessage(message, 2).message(), "the measures have 1 numbers for 1 sections of 2 pulses");
  measures->add_section_us(20);
  EXPECT_TRUE(CheckMessage(message, 2).ok());
  measures->set_sections(0, std::string(65, 'x'));
  EXPECT_EQ(CheckMessage(message, 2).message(), "a section's name has 65 bytes; it must have 1 to 64");
  measures->set_sections(0, "");
  EXPECT_FALSE(CheckMessage(message, 2).ok());
  for (int section = 0; section < 33; ++section) measures->add_sections("x");
  EXPECT_FALSE(CheckMessage(message, 2).ok());
  measures->clear_sections();
  measures->clear_section_us();
  measures->add_peer_hosts(7);
  measures->add_peer_sending_us(5);
  EXPECT_EQ(CheckMessage(message, 2).message(), "a column of 1 peer host has 0 numbers");
  measures->add_peer_bytes(5);
  EXPECT_TRUE(CheckMessage(message, 2).ok());
}

v1::JoinRequest LongJoin(int index, int size) {
  v1::JoinRequest request;
  request.set_job("mnist");
  request.mutable_member()->set_incarnation(IncarnationOf(absl::StrCat("w", index)));
  request.mutable_member()->set_host_id(std::string(128, 'h'));
  request.mutable_member()->set_hostname(std::string(255, 'n'));
  request.mutable_member()->set_pid(1 + index);
  for (int i = 0; i < 16; ++i) request.mutable_member()->add_endpoints(std::string(256, 'e'));
  request.set_wanted_size(size);
  request.set_protocol_version(kProtocolVersion);
  request.set_join_timeout_ms(60000);
  request.set_stall_warning_ms(60000);
  return request;
}

TEST(JobTest, MembersThatCannotBeKeptFormNoEpoch) {
  constexpr int kSize = 600;
  std::mt19937_64 random(1);
  TestShell shell{JobOptions()};
  v1::Hello hello;
  hello.set_job("mnist");
  for (int i = 0; i < kSize; ++i) {
    v1::JoinRequest request = LongJoin(i, kSize);
    for (std::string& endpoint : *request.mutable_member()->mutable_endpoints()) {
      for (char& byte : endpoint) byte = static_cast<char>('!' + random() % 90);
    }
    shell.Step(JoinRequested{shell.NewCall(), request});
    hello.set_incarnation(request.member().incarnation());
    shell.Step(StreamOpened{shell.NewStream(), hello});
  }
  EXPECT_EQ(shell.job().Summary().state(), v1::JOB_STATE_FAILED);
  EXPECT_TRUE(absl::StrContains(shell.job().Summary().reason(), "after compression; 786432 is the most that is kept"));
  EXPECT_EQ(shell.job().Summary().epoch(), 0u);
}

TEST(JobTest, ARecordFitsIntoOneBatchWhateverItsMembersSay) {
  // As many of the longest members as are let in, and the longest history.
  int most = 0;
  {
    TestShell shell{JobOptions()};
    for (;; ++most) {
      const Actions actions = shell.Step(JoinRequested{shell.NewCall(), LongJoin(most, 4096)});
      const Reply& reply = std::get<Reply>(actions.outputs.back());
      if (reply.status.ok()) continue;
      EXPECT_EQ(reply.status.code(), absl::StatusCode::kResourceExhausted);
      break;
    }
  }
  ASSERT_GT(most, 100);
  TestShell shell{JobOptions()};
  for (int i = 0; i < most; ++i) shell.Step(JoinRequested{shell.NewCall(), LongJoin(i, most)});
  v1::Hello hello;
  hello.set_job("mnist");
  for (int i = 0; i < most; ++i) {
    hello.set_incarnation(IncarnationOf(absl::StrCat("w", i)));
    shell.Step(StreamOpened{shell.NewStream(), hello});
  }
  ASSERT_EQ(shell.job().Summary().state(), v1::JOB_STATE_RUNNING);
  for (int step = 0; step < static_cast<int>(History::kMostEntries); ++step) {
    BeginCheckpointRequested begin{shell.NewCall(), {}};
    begin.request.set_incarnation(IncarnationOf("w0"));
    begin.request.set_epoch(1);
    begin.request.set_step(step);
    begin.request.set_idempotency_key("k");
    shell.Step(begin);
    CommitCheckpointRequested commit{shell.NewCall(), {}};
    commit.request.set_incarnation(IncarnationOf("w0"));
    commit.request.mutable_checkpoint()->set_step(step);
    commit.request.mutable_checkpoint()->set_token(step + 1);
    commit.request.mutable_checkpoint()->set_path(absl::StrCat("/", std::string(4000, 'p'), ".t", step + 1, "."));
    commit.request.mutable_checkpoint()->set_sha256(std::string(32, 's'));
    shell.Step(commit);
  }
  EXPECT_TRUE(shell.broken().empty()) << shell.broken().front();
}

TEST(JobTest, RowsOfLoggedValuesWaitBehindThoseOfManyMembers) {
  constexpr int kSize = 170;
  std::mt19937_64 random(1);
  TestShell shell{JobOptions()};
  const StreamId first = shell.FormEpoch(1).front();
  v1::WorkerMessage beat;
  beat.mutable_heartbeat()->set_epoch(1);
  v1::LoggedPoints* points = beat.mutable_heartbeat()->add_logged();
  points->set_first(1);
  points->set_epoch(1);
  for (uint32_t name = 0; name < 256; ++name) {
    points->add_names(absl::StrCat("curve ", name));
    points->add_by_rank(false);
    points->add_name(name);
    points->add_step(1);
    points->add_value(1);
    points->add_age_ms(0);
  }
  shell.Step(MessageReceived{first, beat});
  v1::WorkerMessage leave;
  leave.mutable_leave()->set_epoch(1);
  shell.Step(MessageReceived{first, leave});
  ASSERT_EQ(shell.job().Summary().state(), v1::JOB_STATE_FINISHED);
  v1::Hello hello;
  hello.set_job("mnist");
  const auto count = [](const Actions& actions, const char* kind) {
    return absl::c_count_if(actions.persist.puts, [kind](const StoreRow& row) {
      return absl::StartsWith(row.key, kind) && !absl::EndsWith(row.key, "stands");
    });
  };
  Actions formed;
  for (int i = 0; i < kSize; ++i) {
    v1::JoinRequest request = LongJoin(1 + i, kSize);
    for (std::string& endpoint : *request.mutable_member()->mutable_endpoints()) {
      for (char& byte : endpoint) byte = static_cast<char>('!' + random() % 90);
    }
    shell.Step(JoinRequested{shell.NewCall(), request});
    hello.set_incarnation(request.member().incarnation());
    // Further rows are due.
    if (i == kSize - 1) shell.Oversleep(absl::Seconds(1));
    formed = shell.Step(StreamOpened{shell.NewStream(), hello});
  }
  ASSERT_EQ(shell.job().Summary().state(), v1::JOB_STATE_RUNNING) << shell.job().Summary().reason();
  EXPECT_EQ(count(formed, "members/"), 1);
  EXPECT_EQ(count(formed, "logged/"), 0) << "both may be more than a batch takes";
  ASSERT_LE(formed.next_tick, shell.now());
  EXPECT_EQ(count(shell.Step(Ticked{}), "logged/"), 100);
  EXPECT_TRUE(shell.broken().empty()) << shell.broken().front();
}

TEST(FenceTest, TheOldestAreForgottenBeyondItsBound) {
  Fence fence;
  for (size_t i = 0; i <= Fence::kMostIncarnations; ++i) fence.Shut(absl::StrCat(i), i % 2 == 0 ? "even" : "odd");
  EXPECT_EQ(fence.ReasonFor("0"), nullptr);
  ASSERT_NE(fence.ReasonFor("1"), nullptr);
  EXPECT_EQ(*fence.ReasonFor("1"), "odd");
  EXPECT_EQ(*fence.ReasonFor("2"), "even");
}

TEST(HistoryTest, KeepsTheNewestAndShortensThem) {
  History history;
  for (int i = 0; i < 300; ++i) history.Add(absl::StrCat(i, std::string(1000, 'x')), absl::UnixEpoch());
  EXPECT_EQ(history.entries().size(), 256);
  EXPECT_EQ(history.entries()[0].sentence().substr(0, 3), "44x");
  EXPECT_LE(history.entries()[0].sentence().size(), History::kMostSentenceBytes + 3);
}

}  // namespace
}  // namespace farandole
