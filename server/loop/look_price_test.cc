// A call for an ended job that is not in memory pays for the rows that are read.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/steady_time.h"
#include "farandole/v1/monitor.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/bytes/byte_ledger.h"
#include "server/loop/job_loop_fixture.h"
#include "server/store/store_wait.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRowBytes = 900 << 10;

class LookPriceTest : public JobLoopTest {
 protected:
  LookPriceTest() { idle_linger_ = absl::ZeroDuration(); }

  // A job has ended, and has a row of kRowBytes.
  void SetUp() override {
    const auto loop = MakeLoop();
    Form(loop.get());
    ASSERT_TRUE(loop->Push(kJob, LeaveOn(1)).ok());
    ASSERT_TRUE(AwaitClose(1).ok());
    loop->Stop();
    v1::GetJobResponse report;
    report.mutable_summary()->set_reason(std::string(kRowBytes, 'x'));
    const uint64_t revision = AcquireAndWait(&store_, kJob.Text()).value();
    const StoreBatch batch{{}, {{"measured/default/train/report", report.SerializeAsString()}}};
    ASSERT_TRUE(CommitAndWait(&store_, kJob.Text(), revision, batch).ok());
    ByteLimits limits;
    limits.tenant_rate = kBurst / kPaceBurstSeconds;
    small_ = std::make_unique<ByteLedger>(limits);
    Begin();
  }

  // Nothing is in memory.
  void Begin() {
    JobLoopOptions options;
    options.idle_linger = idle_linger_;
    options.random_bytes = [](size_t count) { return std::string(count, 'r'); };
    loop_ = nullptr;
    loop_ = std::make_unique<JobLoop>(
        options, JobLoopDependencies{&store_, &outputs_, &metrics_, &directory_, &tenants_, &gate_, small_.get()});
  }

  static JobKey Numbered(uint32_t number) { return {kJob.tenant, absl::StrCat("job", number)}; }
  // Of the job's run `run`, from 0.
  static JoinRequested JoinOfNumbered(CallId call, uint32_t number, uint32_t run) {
    JoinRequested join = JoinOf(call, run, 1);
    join.request.set_job(Numbered(number).job);
    return join;
  }
  // So many further jobs have ended.
  void RunNumbered(uint32_t count) {
    for (uint32_t number = 0; number < count; ++number) {
      ASSERT_TRUE(loop_->Push(Numbered(number), JoinOfNumbered(1, number, 0)).ok());
      ASSERT_TRUE(outputs_.NextReply().status.ok());
      const StreamId stream = 10 + number;
      StreamOpened opened = StreamOf(stream, 0);
      opened.hello.set_job(Numbered(number).job);
      ASSERT_TRUE(loop_->Push(Numbered(number), opened).ok());
      AwaitEpoch();
      ASSERT_TRUE(loop_->Push(Numbered(number), LeaveOn(stream)).ok());
      ASSERT_TRUE(AwaitClose(stream).ok());
    }
    Begin();
  }

  absl::Status Look(Event event, bool of_cluster = false) {
    EXPECT_TRUE(loop_->Push(kJob, std::move(event), {}, of_cluster).ok());
    return outputs_.NextReply().status;
  }

  // Calls 100 and so on.
  void LookAtNumbered(uint32_t count) {
    for (uint32_t number = 0; number < count; ++number)
      ASSERT_TRUE(loop_->Push(Numbered(number), JobInspected{100 + number}).ok());
  }
  // The loop has taken all that were pushed before, and answers none of them yet.
  void AwaitTaken() {
    ASSERT_TRUE(loop_->Push({kJob.tenant, "none"}, JobInspected{1}).ok());
    EXPECT_EQ(outputs_.NextReply().call, 1u);
  }

  // Pays for four readings.
  static constexpr int64_t kBurst = 4 << 20;
  std::unique_ptr<ByteLedger> small_;
  std::unique_ptr<JobLoop> loop_;
};

TEST_F(LookPriceTest, AJobThatIsReadForALookIsPaidForByItsRows) {
  const int before = store_.calls();
  absl::Status last;
  for (int looks = 0; looks < 1000 && last.ok(); ++looks) last = Look(JobInspected{1});
  ASSERT_EQ(last.code(), absl::StatusCode::kResourceExhausted) << last;
  EXPECT_THAT(last.message(), HasSubstr("has more than 0.125 MiB of ended jobs read in a second (--tenant-mib-per-s)"));
  EXPECT_THAT(last.message(), HasSubstr("retry in 1s"));
  const int reads = store_.calls();
  EXPECT_GE(reads - before, 4);
  EXPECT_LE(reads - before, 6);
  // Nothing is read for those that are refused, whatever they ask.
  for (int looks = 0; looks < 10; ++looks) {
    EXPECT_EQ(Look(JobInspected{2}).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(Look(CheckpointsListed{2}).code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(store_.calls(), reads);
  EXPECT_EQ(small_->Tenant(kJob.tenant)->held(BytePool::kKept), 0);
  // They do not keep their tenant from other looks, nor a run from its checkpoint.
  EXPECT_EQ(small_->LooksOf(kJob.tenant)->Wait(SteadyNow()), absl::ZeroDuration());
  EXPECT_EQ(Look(FindCheckpointRequested{2, {}}).code(), absl::StatusCode::kNotFound) << "it has none";
}

TEST_F(LookPriceTest, CallsThatDoNotOnlyLookPayTooAndMayOweMore) {
  const int before = store_.calls();
  absl::Status last = absl::NotFoundError("");
  for (int calls = 0; calls < 1000 && absl::IsNotFound(last); ++calls) last = Look(FindCheckpointRequested{1, {}});
  ASSERT_EQ(last.code(), absl::StatusCode::kResourceExhausted) << last;
  EXPECT_THAT(last.message(), HasSubstr("so job train, which is not in memory, is not read; retry in 1s"));
  const int reads = store_.calls();
  EXPECT_GE(reads - before, 6);
  EXPECT_LE(reads - before, 9);
  // Others have as much again.
  last = absl::OkStatus();
  for (int calls = 0; calls < 1000 && !absl::IsResourceExhausted(last); ++calls) last = Look(ExitReported{2, {}, ""});
  EXPECT_TRUE(absl::IsResourceExhausted(last)) << last;
  EXPECT_GE(store_.calls() - reads, 2);
  EXPECT_LE(store_.calls() - reads, 4);
}

TEST_F(LookPriceTest, RolesOfTheClusterPayNothingAndOneWhoJoinsMayOweMore) {
  for (int looks = 0; looks < 20; ++looks) {
    const absl::Status shown = Look(JobInspected{1}, /*of_cluster=*/true);
    EXPECT_TRUE(shown.ok()) << shown;
  }
  EXPECT_EQ(small_->ReadsOf(kJob.tenant)->Wait(SteadyNow()), absl::ZeroDuration());
  absl::Status last;
  for (int looks = 0; looks < 1000 && last.ok(); ++looks) last = Look(JobInspected{2});
  EXPECT_EQ(last.code(), absl::StatusCode::kResourceExhausted) << last;
  EXPECT_TRUE(Look(JobInspected{3}, /*of_cluster=*/true).ok());
  const absl::Status joined = Look(JoinOf(5, 1, 1));
  EXPECT_TRUE(joined.ok()) << joined;
}

TEST_F(LookPriceTest, ATenantHasTwoReadingsAtATimeAndAllThatWaitAreAnswered) {
  constexpr uint32_t kJobs = 6;
  RunNumbered(kJobs);
  store_.reads().Hold();
  LookAtNumbered(kJobs);
  // Behind jobs that are read, and behind some that wait for that.
  for (const uint32_t number : {0u, 4u}) {
    ASSERT_TRUE(loop_->Push(Numbered(number), JoinOfNumbered(200 + number, number, 1)).ok());
    ASSERT_TRUE(loop_->Push(Numbered(number), JobInspected{300 + number}, {}, /*of_cluster=*/true).ok());
  }
  AwaitTaken();
  EXPECT_EQ(store_.reads().held(), ReadQueue::kMost);
  store_.reads().Open();
  std::set<CallId> answered;
  while (answered.size() < kJobs + 4) {
    const Reply reply = outputs_.NextReply();
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_TRUE(answered.insert(reply.call).second);
  }
}

TEST_F(LookPriceTest, ALoopThatStopsAnswersThoseWhoseReadingWaits) {
  constexpr uint32_t kJobs = 6;
  RunNumbered(kJobs);
  store_.reads().Hold();
  LookAtNumbered(kJobs);
  std::thread opener([this] { store_.reads().Open(); });
  loop_->Stop();
  opener.join();
  for (uint32_t number = 0; number < kJobs; ++number) EXPECT_TRUE(outputs_.NextReply().status.ok());
}

TEST_F(LookPriceTest, WhereTheOthersHaveTakenTheTenantsPaceLooksThatWaitAreRefused) {
  constexpr uint32_t kJobs = 4;
  RunNumbered(kJobs);
  store_.reads().Hold();
  LookAtNumbered(kJobs);
  AwaitTaken();
  small_->ReadsOf(kJob.tenant)->Take(2 * kBurst, SteadyNow());
  ASSERT_TRUE(loop_->Push(Numbered(3), JobInspected{2}, {}, /*of_cluster=*/true).ok());
  AwaitTaken();
  store_.reads().Open();
  std::map<CallId, bool> answers;
  while (answers.size() < kJobs + 1) {
    const Reply reply = outputs_.NextReply();
    answers[reply.call] = reply.status.ok();
  }
  EXPECT_EQ(answers, (std::map<CallId, bool>{{100, true}, {101, true}, {102, false}, {103, true}, {2, true}}));
  loop_->Stop();
  EXPECT_EQ(loop_->mailbox_depth(), 0u);
}

TEST_F(LookPriceTest, SearchesThatWaitToBeReadAreRefusedWhereTheOthersHaveTakenTheirPart) {
  constexpr uint32_t kJobs = 4;
  RunNumbered(kJobs);
  store_.reads().Hold();
  for (uint32_t number = 0; number < kJobs; ++number)
    ASSERT_TRUE(loop_->Push(Numbered(number), FindCheckpointRequested{100 + number, {}}).ok());
  ASSERT_TRUE(loop_->Push(Numbered(3), JoinOfNumbered(2, 3, 1)).ok());
  AwaitTaken();
  // The burst, and more than half of another one.
  small_->ReadsOf(kJob.tenant)->Take(kBurst / 4 * 7, SteadyNow());
  store_.reads().Open();
  std::map<CallId, absl::StatusCode> answers;
  while (answers.size() < kJobs + 1) {
    const Reply reply = outputs_.NextReply();
    answers[reply.call] = reply.status.code();
  }
  EXPECT_EQ(answers[101], absl::StatusCode::kNotFound) << "it was being read";
  EXPECT_EQ(answers[102], absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(answers[103], absl::StatusCode::kNotFound) << "who joins may owe more";
  EXPECT_EQ(answers[2], absl::StatusCode::kOk);
}

}  // namespace
}  // namespace farandole
