#include "server/loop/job_loop.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/retry/retry_delay.h"
#include "base/testing/log_lines.h"
#include "farandole/v1/store.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/loop/job_loop_fixture.h"
#include "server/loop/job_loops.h"
#include "server/queue/launch_paces.h"
#include "server/store/store_wait.h"

namespace farandole {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(JobLoopTest, NothingButAJoinMakesAJob) {
  const auto loop = MakeLoop();
  ASSERT_TRUE(loop->Push(kJob, JobInspected{7}).ok());
  const Reply reply = outputs_.NextReply();
  EXPECT_EQ(reply.call, 7u);
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(reply.status.message(), HasSubstr("tenant default has no job train"));
  ASSERT_TRUE(loop->Push(kJob, StreamOf(3, 0)).ok());
  EXPECT_EQ(AwaitClose(3).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(ScanAndWait(&store_, "").value().empty());
}

TEST_F(JobLoopTest, ARefusedJoinOrLaunchLeavesNothing) {
  const auto loop = MakeLoop();
  JoinRequested wrong = JoinOf(1, 0, 1);
  wrong.request.set_protocol_version(99);
  JoinRequested many = JoinOf(2, 0, kDefaultMaxWorkers + 1);
  JobClaimed nameless{3, {}};
  nameless.request.set_job(kJob.job);
  for (const Event& event : std::vector<Event>{wrong, many, nameless}) {
    ASSERT_TRUE(loop->Push(kJob, event).ok());
    EXPECT_FALSE(outputs_.NextReply().status.ok());
  }
  EXPECT_EQ(ScanAndWait(&store_, "").value().size(), 0u);
  EXPECT_FALSE(directory_.Knows(kJob));
}

TEST_F(JobLoopTest, AClaimTakesRoomInTheQuotaUntilItEnds) {
  v1::TenantRecord tenant;
  tenant.set_name("default");
  tenant.set_max_jobs(1);
  tenant.set_max_workers(2);
  ASSERT_TRUE(tenants_.Put(tenant).ok());
  const auto loop = MakeLoop();
  const auto claim = [&](const std::string& job, bool release) {
    JobClaimed event{1, {}};
    event.request.set_job(job);
    event.request.mutable_launch()->set_nonce(absl::StrCat("0123456789abcdef", job));
    event.request.mutable_launch()->set_who("a test");
    event.request.set_most_workers(1);
    event.request.set_release(release);
    EXPECT_TRUE(loop->Push({"default", job}, event).ok());
    return outputs_.NextReply().status;
  };
  EXPECT_TRUE(claim(kJob.job, false).ok());
  EXPECT_EQ(claim("other", false).code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(loop->Push(kJob, JoinOf(2, 0, 3)).ok());
  EXPECT_THAT(outputs_.NextReply().status.message(), HasSubstr("it wants 3 workers"));
  ASSERT_TRUE(loop->Push(kJob, JobInspected{3}).ok());
  const absl::Status shown = outputs_.NextReply().status;
  EXPECT_EQ(shown.code(), absl::StatusCode::kNotFound) << shown;
  EXPECT_TRUE(claim(kJob.job, true).ok());
  EXPECT_TRUE(claim("other", false).ok());
}

// A quota for thousands of jobs.
v1::TenantRecord LargeTenant() {
  v1::TenantRecord tenant;
  tenant.set_name("default");
  tenant.set_max_jobs(5000);
  tenant.set_max_workers(20'000);
  return tenant;
}

TEST_F(JobLoopTest, JobsThatWorkersMakeByJoiningHaveThePaceOfLaunches) {
  ASSERT_TRUE(tenants_.Put(LargeTenant()).ok());
  const auto loop = MakeLoop();
  CallId call = 0;
  const auto join = [&](const JobKey& key) {
    JoinRequested event = JoinOf(++call, 0, 2);
    event.request.set_job(key.job);
    EXPECT_TRUE(loop->Push(key, event).ok());
    return outputs_.NextReply().status;
  };
  int made = 0;
  absl::Status refused;
  for (; made < 2000; ++made) {
    refused = join({"default", absl::StrCat("train.", made)});
    if (!refused.ok()) break;
  }
  // Some more come in the time that it takes.
  EXPECT_GE(made, LaunchPaces::kNewAtOnce);
  EXPECT_LT(made, LaunchPaces::kNewAtOnce + 200);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryDelayOf(refused).has_value()) << refused;
  const JobKey last{"default", absl::StrCat("train.", made)};
  EXPECT_FALSE(directory_.Knows(last)) << "its room is given back";
  EXPECT_TRUE(join({"default", "train.0"}).ok()) << "of a job that there is";
}

TEST_F(JobLoopTest, AWorkerOfAnEarlierRunFormsNoPart) {
  v1::JobSummary parent;
  parent.set_tenant("default");
  parent.set_job("train");
  parent.set_state(v1::JOB_STATE_RUNNING);
  parent.set_launched_unix_ms(2000);
  parent.set_created_unix_ms(1000);
  directory_.Update(kJob, parent);
  const auto loop = MakeLoop();
  const auto join = [&](const std::string& job, int64_t since) {
    JoinRequested event = JoinOf(1, 0, 2);
    event.request.set_job(job);
    event.part_of = "train";
    event.launch.set_nonce("0123456789abcdef");
    event.launch.set_since_unix_ms(since);
    EXPECT_TRUE(loop->Push({"default", job}, event).ok());
    return outputs_.NextReply().status;
  };
  EXPECT_EQ(join("train.0-1", 1999), absl::PermissionDeniedError("the worker's credential is of an earlier run of job "
                                                                 "train than the last: it forms no job train.0-1"));
  EXPECT_FALSE(directory_.Knows({"default", "train.0-1"}));
  EXPECT_TRUE(join("train.0-1", 2000).ok());
}

TEST_F(JobLoopTest, JobsThatAreMadeAllTheTimeDoNotFillTheLog) {
  LogLines log;
  ASSERT_TRUE(tenants_.Put(LargeTenant()).ok());
  auto loop = MakeLoop();
  for (int job = 0; job < 300; ++job) {
    const JobKey key{"default", absl::StrCat("j", job)};
    JoinRequested event = JoinOf(1, 0, 2);
    event.request.set_job(key.job);
    ASSERT_TRUE(loop->Push(key, event).ok());
    ASSERT_TRUE(outputs_.NextReply().status.ok());
  }
  loop.reset();
  const std::vector<std::string> lines = log.Take();
  EXPECT_THAT(lines, Contains(HasSubstr("begins to form")).Times(200));
  EXPECT_THAT(lines, Contains(HasSubstr("are left out")).Times(1));
  EXPECT_THAT(lines, Contains("100 more lines about its jobs in 10s are left out"));
}

TEST_F(JobLoopTest, AJobIsTakenOverAndReadByOneCall) {
  const auto loop = MakeLoop();
  ASSERT_TRUE(loop->Push(kJob, JoinOf(1, 0, 2)).ok());
  EXPECT_TRUE(outputs_.NextReply().status.ok());
  EXPECT_EQ(store_.calls(), 1);
  ASSERT_TRUE(loop->Push(kJob, JoinOf(2, 1, 2)).ok());
  EXPECT_TRUE(outputs_.NextReply().status.ok());
  EXPECT_EQ(store_.calls(), 1) << "the job is in memory";
}

TEST_F(JobLoopTest, WhatMustBeDurableIsWrittenBeforeTheOutputsLeave) {
  const auto loop = MakeLoop();
  ASSERT_TRUE(loop->Push(kJob, JoinOf(1, 0, 1)).ok());
  ASSERT_TRUE(outputs_.NextReply().status.ok());
  store_.commits().Hold();
  ASSERT_TRUE(loop->Push(kJob, StreamOf(1, 0)).ok());
  store_.commits().AwaitHeld(1);
  EXPECT_TRUE(outputs_.IsEmpty()) << "the epoch is not durable yet";
  store_.commits().Open();
  AwaitEpoch();
  v1::JobRecord record;
  ASSERT_TRUE(record.ParseFromString(ScanAndWait(&store_, "job/default/train").value().at(0).value));
  EXPECT_EQ(record.epoch().number(), 1u);
}

TEST_F(JobLoopTest, OutputsOfLaterStepsQueueBehindACommitWhileStepsGoOn) {
  const auto loop = MakeLoop();
  Form(loop.get());
  store_.commits().Hold();
  ASSERT_TRUE(loop->Push(kJob, LeaveOn(1)).ok());
  ASSERT_TRUE(loop->Push(kJob, JobInspected{9}).ok());
  store_.commits().AwaitHeld(1);
  EXPECT_TRUE(outputs_.IsEmpty());
  store_.commits().Open();
  EXPECT_TRUE(AwaitClose(1).ok());
  const Reply reply = outputs_.NextReply();
  EXPECT_EQ(reply.call, 9u);
  EXPECT_EQ(std::get<v1::GetJobResponse>(reply.message).summary().state(), v1::JOB_STATE_FINISHED);
}

TEST_F(JobLoopTest, AJobWhoseRowsWaitForTheDiskTakesNoMoreStepsThanTheirBytesAllow) {
  const auto loop = MakeLoop();
  Form(loop.get());
  WriteCheckpoints(loop.get(), 60);
  const auto account = bytes_.Tenant("default");
  const int64_t before = account->held(ByteKind::kCommits);
  store_.commits().Hold();
  // Each commits the job's record anew, with what 60 checkpoints tell of themselves.
  for (int i = 0; i < 800; ++i) {
    ASSERT_TRUE(loop->Push(kJob, BeginOf(1000, absl::StrCat("key", i))).ok());
  }
  const auto charged = [&] { return account->held(ByteKind::kCommits) - before; };
  // Turns of another job, so that this one has had all that it may have.
  for (int turns = 0; turns<100; turns += charged()> 2 << 20 ? 1 : 0) {
    ASSERT_TRUE(loop->Push({"default", "other"}, JobInspected{9}).ok());
    EXPECT_EQ(outputs_.NextReply().call, 9u);
  }
  EXPECT_LT(charged(), 3 << 20);
  EXPECT_LT(store_.commits().held(), 800u);
  store_.commits().Open();
  for (int i = 0; i < 800; ++i) EXPECT_EQ(outputs_.NextReply().call, 1u);
  ASSERT_TRUE(loop->Push(kJob, JobInspected{10}).ok());
  EXPECT_EQ(outputs_.NextReply().call, 10u);
  EXPECT_EQ(account->held(ByteKind::kCommits), before);
}

TEST_F(JobLoopTest, LoggedValuesAreWrittenWhenEarlierRowsAreDurable) {
  const auto loop = MakeLoop();
  Form(loop.get());
  v1::WorkerMessage beat;
  beat.mutable_heartbeat()->set_epoch(1);
  v1::LoggedPoints* const points = beat.mutable_heartbeat()->add_logged();
  points->set_epoch(1);
  points->set_first(1);
  points->add_names("loss");
  points->add_by_rank(true);
  points->add_name(0);
  points->add_step(1);
  points->add_value(1);
  points->add_age_ms(0);
  store_.commits().Hold();
  ASSERT_TRUE(loop->Push(kJob, BeginOf(1, "key")).ok());
  store_.commits().AwaitHeld(1);
  ASSERT_TRUE(loop->Push(kJob, MessageReceived{1, beat}).ok());
  // At the end of the run they are due at once.
  ASSERT_TRUE(loop->Push(kJob, AbortRequested{2, "enough"}).ok());
  store_.commits().AwaitHeld(2);
  store_.commits().LetOneThrough();
  store_.commits().LetOneThrough();
  EXPECT_EQ(outputs_.NextReply().call, 1u);
  EXPECT_EQ(outputs_.NextReply().call, 2u);
  EXPECT_THAT(KeysNow(), Not(Contains(StartsWith("logged/"))));
  store_.commits().AwaitHeld(1);
  store_.commits().Open();
  ASSERT_TRUE(loop->Push(kJob, JobInspected{3}).ok());
  EXPECT_EQ(outputs_.NextReply().call, 3u);
  EXPECT_THAT(KeysNow(), Contains(StartsWith("logged/")));
}

// A heartbeat with measurements of the job that Form makes.
v1::WorkerMessage MeasuredBeat() {
  v1::WorkerMessage beat;
  beat.mutable_heartbeat()->set_epoch(1);
  beat.mutable_heartbeat()->add_pulses()->set_beat(1);
  v1::Measures* measures = beat.mutable_heartbeat()->mutable_measures();
  measures->set_interval_us(500'000);
  measures->add_steps(3);
  return beat;
}

TEST_F(JobLoopTest, ALoopThatIsStoppedKeepsWhatWasMeasured) {
  auto loop = MakeLoop();
  Form(loop.get());
  ASSERT_TRUE(loop->Push(kJob, MessageReceived{1, MeasuredBeat()}).ok());
  ASSERT_TRUE(loop->Push(kJob, JobInspected{2}).ok());
  outputs_.NextReply();
  EXPECT_THAT(KeysNow(), Not(Contains(StartsWith("measured/default/train/"))));
  loop.reset();
  EXPECT_THAT(KeysNow(), Contains(StartsWith("measured/default/train/0/000000000001/")));
}

TEST_F(JobLoopTest, NoStepWaitsForTheCommitOfMeasurementsAndTheJobStaysUntilItHasEnded) {
  idle_linger_ = absl::Milliseconds(1);
  const auto loop = MakeLoop();
  Form(loop.get());
  ASSERT_TRUE(loop->Push(kJob, MessageReceived{1, MeasuredBeat()}).ok());
  ASSERT_TRUE(loop->Push(kJob, JobInspected{2}).ok());
  EXPECT_TRUE(outputs_.NextReply().status.ok());
  store_.commits().Hold();
  // The end of the epoch: the job's record, and what was measured.
  ASSERT_TRUE(loop->Push(kJob, AbortRequested{3, "enough"}).ok());
  store_.commits().AwaitHeld(2);
  store_.commits().LetOneThrough();
  EXPECT_EQ(outputs_.NextReply().call, 3u);
  ASSERT_TRUE(loop->Push(kJob, JobInspected{4, HistoryAsked{0}}).ok());
  const Reply shown = outputs_.NextReply();
  EXPECT_EQ(std::get<v1::GetJobResponse>(shown.message).rank_history().steps_size(), 1);
  const int reads = store_.calls();
  ASSERT_TRUE(loop->Push(kJob, JobInspected{5}).ok());
  outputs_.NextReply();
  EXPECT_EQ(store_.calls(), reads) << "it was not dropped";
  store_.commits().Open();
  // Now it is, and read again when somebody asks.
  CallId call = 6;
  while (store_.calls() == reads) {
    ASSERT_TRUE(loop->Push(kJob, JobInspected{call++, HistoryAsked{0}}).ok());
    const Reply again = outputs_.NextReply();
    EXPECT_EQ(std::get<v1::GetJobResponse>(again.message).rank_history().steps_size(), 1);
  }
}

TEST_F(JobLoopTest, ARefusedCommitDropsTheJobAndEndsItsStreamsAborted) {
  const auto loop = MakeLoop();
  Form(loop.get());
  // Another coordinator takes the job over.
  ASSERT_TRUE(AcquireAndWait(&store_, kJob.Text()).ok());
  ASSERT_TRUE(loop->Push(kJob, LeaveOn(1)).ok());
  const absl::Status end = AwaitClose(1);
  EXPECT_EQ(end.code(), absl::StatusCode::kAborted) << end;
  EXPECT_THAT(end.message(), HasSubstr("default/train was taken over"));
}

TEST_F(JobLoopTest, AStoppedLoopLeavesItsJobToTheNextOne) {
  {
    const auto loop = MakeLoop();
    Form(loop.get());
    loop->Stop();
    EXPECT_EQ(loop->Push(kJob, StreamClosed{1, "broken"}).code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_TRUE(outputs_.IsEmpty()) << "streams stay open for whoever owns them";
  const auto loop = MakeLoop();
  ASSERT_TRUE(loop->Push(kJob, StreamOf(2, 0, /*epoch=*/1)).ok());
  ASSERT_TRUE(loop->Push(kJob, LeaveOn(2)).ok());
  EXPECT_TRUE(AwaitClose(2).ok());
}

TEST_F(JobLoopTest, AnIdleJobIsDroppedAndReadAgainWhenAskedFor) {
  idle_linger_ = absl::ZeroDuration();
  const auto loop = MakeLoop();
  Form(loop.get());
  ASSERT_TRUE(loop->Push(kJob, LeaveOn(1)).ok());
  EXPECT_TRUE(AwaitClose(1).ok());
  const uint64_t before = AcquireAndWait(&store_, "probe").value();
  // Dropped or not yet: the answer is that of the durable record.
  for (CallId call = 10; call < 20; ++call) {
    ASSERT_TRUE(loop->Push(kJob, JobInspected{call}).ok());
    const Reply reply = outputs_.NextReply();
    EXPECT_EQ(reply.call, call);
    EXPECT_EQ(std::get<v1::GetJobResponse>(reply.message).summary().state(), v1::JOB_STATE_FINISHED);
  }
  EXPECT_GT(AcquireAndWait(&store_, "probe").value(), before);
}

TEST_F(JobLoopTest, AStreamThatEndedIsClosedAfterWhatTheJobDecided) {
  const auto loop = MakeLoop();
  Form(loop.get());
  ASSERT_TRUE(loop->Push(kJob, StreamClosed{1, "its stream broke"}).ok());
  EXPECT_EQ(AwaitClose(1).code(), absl::StatusCode::kCancelled);
}

TEST_F(JobLoopTest, MessagesOfAStreamThatTheJobEndedChangeNothing) {
  const auto loop = MakeLoop();
  Form(loop.get());
  ASSERT_TRUE(loop->Push(kJob, LeaveOn(1)).ok());
  EXPECT_TRUE(AwaitClose(1).ok());
  ASSERT_TRUE(loop->Push(kJob, LeaveOn(1)).ok());
  ASSERT_TRUE(loop->Push(kJob, StreamClosed{1, "its stream broke"}).ok());
  ASSERT_TRUE(loop->Push(kJob, JobInspected{9}).ok());
  EXPECT_EQ(outputs_.NextReply().call, 9u);
}

TEST_F(JobLoopTest, ATenantsQuotaBoundsItsActiveJobs) {
  v1::TenantRecord tenant;
  tenant.set_name("default");
  tenant.set_max_jobs(1);
  tenant.set_max_workers(2);
  ASSERT_TRUE(tenants_.Put(tenant).ok());
  const auto loop = MakeLoop();
  ASSERT_TRUE(loop->Push({"default", "wide"}, JoinOf(1, 0, 3)).ok());
  const Reply wide = outputs_.NextReply();
  EXPECT_EQ(wide.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(wide.status.message(), HasSubstr("it wants 3 workers"));
  Form(loop.get());
  ASSERT_TRUE(loop->Push({"default", "second"}, JoinOf(2, 0, 1)).ok());
  const Reply second = outputs_.NextReply();
  EXPECT_EQ(second.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(second.status.message(), HasSubstr("runs 1 jobs, its quota is 1"));
}

TEST_F(JobLoopTest, ARowThatCannotBeReadIsSaidAndTheJobIsNotMadeAnew) {
  const uint64_t revision = AcquireAndWait(&store_, "spoiler").value();
  ASSERT_TRUE(CommitAndWait(&store_, "spoiler", revision, StoreBatch{{}, {{"job/default/train", "\xff\xff"}}}).ok());
  const auto loop = MakeLoop();
  ASSERT_TRUE(loop->Push(kJob, JoinOf(1, 0, 1)).ok());
  EXPECT_EQ(outputs_.NextReply().status.code(), absl::StatusCode::kDataLoss);
}

TEST_F(JobLoopTest, SeveralLoopsShareTheJobs) {
  JobLoopOptions options;
  options.random_bytes = [](size_t count) { return std::string(count, 'r'); };
  JobLoops loops(3, options, JobLoopDependencies{&store_, &outputs_, &metrics_, &directory_, &tenants_, &gate_});
  constexpr CallId kJobs = 20;
  for (CallId call = 1; call <= kJobs; ++call) {
    ASSERT_TRUE(loops.Push({"default", absl::StrCat("job", call)}, JoinOf(call, 0, 1)).ok());
  }
  for (CallId call = 1; call <= kJobs; ++call) {
    const Reply reply = outputs_.NextReply();
    EXPECT_TRUE(reply.status.ok()) << reply.status;
  }
  loops.Stop();
  EXPECT_EQ(loops.mailbox_depth(), 0u);
  EXPECT_EQ(directory_.ActiveKeys().size(), static_cast<size_t>(kJobs));
}

TEST_F(JobLoopTest, EndedJobsThatAreLookedAtAreChargedAndTheOneThatIsIdleForLongestGoes) {
  constexpr int kJobs = 32;
  const auto key_of = [](int number) { return JobKey{"default", absl::StrCat("job", number)}; };
  auto loop = MakeLoop();
  for (int number = 0; number < kJobs; ++number) {
    const auto stream = static_cast<StreamId>(number + 1);
    ASSERT_TRUE(loop->Push(key_of(number), JoinOf(1, 0, 1)).ok());
    ASSERT_TRUE(outputs_.NextReply().status.ok());
    ASSERT_TRUE(loop->Push(key_of(number), StreamOf(stream, 0)).ok());
    AwaitEpoch();
    ASSERT_TRUE(loop->Push(key_of(number), LeaveOn(stream)).ok());
    ASSERT_TRUE(AwaitClose(stream).ok());
  }
  ASSERT_TRUE(loop->Push(key_of(0), FindCheckpointRequested{2, {}}).ok());
  outputs_.NextReply();
  const std::shared_ptr<ByteAccount> tenant = bytes_.Tenant("default");
  EXPECT_GT(tenant->held(ByteKind::kReports), kJobs * 1000) << "those that have ended here, too";
  loop.reset();
  EXPECT_EQ(tenant->held(ByteKind::kReports), 0);

  ByteLimits limits;
  limits.tenant_kept = 128 << 10;
  ByteLedger small(limits);
  JobLoopOptions options;
  options.random_bytes = [](size_t count) { return std::string(count, 'r'); };
  loop = std::make_unique<JobLoop>(
      options, JobLoopDependencies{&store_, &outputs_, &metrics_, &directory_, &tenants_, &gate_, &small});
  for (int number = 0; number < kJobs; ++number) {
    ASSERT_TRUE(loop->Push(key_of(number), FindCheckpointRequested{3, {}}).ok());
    EXPECT_EQ(outputs_.NextReply().status.code(), absl::StatusCode::kNotFound) << "it has none";
    EXPECT_LE(small.Tenant("default")->held(BytePool::kKept), limits.tenant_kept / 2);
  }
  EXPECT_GT(small.Tenant("default")->held(BytePool::kKept), 0);
  // Without room for the job a look is refused, and a run goes on from its checkpoint all the same.
  const ByteCharge all = small.Job("default", key_of(0).job)->Add(ByteKind::kNames, limits.tenant_kept / 2);
  ASSERT_TRUE(loop->Push(key_of(0), JobInspected{4}).ok());
  const absl::Status refused = outputs_.NextReply().status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("retry in"));
  ASSERT_TRUE(loop->Push(key_of(0), FindCheckpointRequested{5, {}}).ok());
  EXPECT_EQ(outputs_.NextReply().status.code(), absl::StatusCode::kNotFound);
  loop.reset();
}

}  // namespace
}  // namespace farandole
