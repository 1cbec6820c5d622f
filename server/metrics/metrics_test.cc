#include "server/metrics/metrics.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::WorkerMessage Ready() {
  v1::WorkerMessage message;
  message.mutable_ready();
  return message;
}

TEST(MetricsTest, EveryRowIsNamedByTheRuleOnceAndShown) {
  const Metrics metrics("1.2.3", absl::FromUnixSeconds(5));
  const std::string text = metrics.Text();
  std::set<std::string> names;
  for (const MetricRow& row : MetricRows()) {
    EXPECT_THAT(row.name, ::testing::MatchesRegex("farandole_[a-z]+(_[a-z]+)*"));
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_THAT(std::string(row.labels), Not(HasSubstr("rank")));
    const bool is_total = std::string(row.name).find("_total") != std::string::npos;
    EXPECT_EQ(is_total, row.kind == MetricRow::Kind::kCounter) << row.name;
  }
  EXPECT_THAT(text, HasSubstr("farandole_build_info{version=\"1.2.3\"} 1"));
  EXPECT_THAT(text, HasSubstr("farandole_start_time_seconds 5"));
}

TEST(MetricsTest, OnlyMessagesAboutTensorsAreNegotiation) {
  Metrics metrics("1", absl::UnixEpoch());
  const JobKey job = {"t", "j"};
  metrics.CountReceived(job, Ready());
  v1::WorkerMessage heartbeat;
  heartbeat.mutable_heartbeat();
  metrics.CountReceived(job, heartbeat);
  metrics.CountReceived(job, v1::WorkerMessage());
  EXPECT_THAT(metrics.Text(), HasSubstr("farandole_job_negotiation_messages_total{job=\"j\",tenant=\"t\"} 1"));
  EXPECT_THAT(metrics.Text(), HasSubstr("farandole_messages_received_total{type=\"heartbeat\"} 1"));
}

TEST(MetricsTest, JobsBeyondTheBoundShareARowUntilAnEndedJobGivesItsOwn) {
  Metrics metrics("1", absl::UnixEpoch());
  for (size_t i = 0; i < kMaxJobRows; ++i) metrics.CountReceived({"t", absl::StrCat("j", i)}, Ready());
  metrics.CountReceived({"t", "late"}, Ready());
  EXPECT_THAT(metrics.Text(), HasSubstr("farandole_job_negotiation_messages_total{job=\"\",tenant=\"\"} 1"));
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("job=\"late\"")));
  metrics.ReleaseJob({"t", "j7"});
  metrics.CountReceived({"t", "late"}, Ready());
  EXPECT_THAT(metrics.Text(), HasSubstr("farandole_job_negotiation_messages_total{job=\"late\",tenant=\"t\"} 1"));
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("job=\"j7\"")));
}

TEST(MetricsTest, JobsAreShownByStateAlsoWhenACountIsZero) {
  Metrics metrics("1", absl::UnixEpoch());
  JobRegistry registry;
  v1::JobSummary summary;
  summary.set_tenant("t");
  summary.set_state(v1::JOB_STATE_RUNNING);
  summary.set_size(3);
  summary.set_created_unix_ms(1);
  registry.Update({"t", "j"}, summary);
  metrics.ShowJobs(registry);
  EXPECT_THAT(metrics.Text(), HasSubstr("farandole_workers{tenant=\"t\"} 3"));
  summary.set_state(v1::JOB_STATE_FINISHED);
  registry.Update({"t", "j"}, summary);
  metrics.ShowJobs(registry);
  EXPECT_THAT(metrics.Text(), HasSubstr("farandole_jobs{state=\"running\",tenant=\"t\"} 0"));
  EXPECT_THAT(metrics.Text(), HasSubstr("farandole_workers{tenant=\"t\"} 0"));
}

TEST(MetricsTest, GpusAreShownOfJobsThatHaveThemNow) {
  Metrics metrics("1", absl::UnixEpoch());
  JobRegistry registry;
  v1::JobSummary summary;
  summary.set_tenant("t");
  summary.set_job("j");
  summary.set_state(v1::JOB_STATE_RUNNING);
  summary.set_created_unix_ms(1);
  summary.mutable_gpus()->set_gpus(2);
  summary.mutable_gpus()->set_telling_gpus(1);
  summary.mutable_gpus()->set_busy_percent(75);
  summary.mutable_gpus()->set_memory_used_bytes(10);
  summary.mutable_gpus()->set_memory_total_bytes(160);
  for (int scrape = 0; scrape < 2; ++scrape) {
    registry.Update({"t", "j"}, summary);
    metrics.ShowJobs(registry);
    const std::string text = metrics.Text();
    EXPECT_THAT(text, HasSubstr("farandole_job_gpus{job=\"j\",tenant=\"t\"} 2"));
    EXPECT_THAT(text, HasSubstr("farandole_job_gpu_busy_ratio{job=\"j\",tenant=\"t\"} 0.75"));
    EXPECT_THAT(text, HasSubstr("farandole_job_gpu_memory_used_bytes{job=\"j\",tenant=\"t\"} 10"));
    EXPECT_THAT(text, HasSubstr("farandole_job_gpu_memory_bytes{job=\"j\",tenant=\"t\"} 160"));
  }
  summary.mutable_gpus()->set_telling_gpus(0);
  registry.Update({"t", "j"}, summary);
  metrics.ShowJobs(registry);
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("farandole_job_gpu_busy_ratio{job")));
  EXPECT_THAT(metrics.Text(), HasSubstr("farandole_job_gpus{job"));
  summary.clear_gpus();
  registry.Update({"t", "j"}, summary);
  metrics.ShowJobs(registry);
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("farandole_job_gpus{job")));
}

}  // namespace
}  // namespace farandole
