// A look at an ended job that is not in memory pays for the rows that are read.

#include <cstdint>
#include <memory>
#include <string>
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
    JobLoopOptions options;
    options.idle_linger = idle_linger_;
    options.random_bytes = [](size_t count) { return std::string(count, 'r'); };
    loop_ = std::make_unique<JobLoop>(
        options, JobLoopSurroundings{&store_, &outputs_, &metrics_, &directory_, &tenants_, &gate_, small_.get()});
  }

  absl::Status Look(Event event, bool of_cluster = false) {
    EXPECT_TRUE(loop_->Push(kJob, std::move(event), {}, of_cluster).ok());
    return outputs_.NextReply().status;
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

TEST_F(LookPriceTest, RolesOfTheClusterPayNothingAndNeitherDoesOneWhoJoins) {
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

}  // namespace
}  // namespace farandole
