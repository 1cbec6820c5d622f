#include "deploy/cli/text/diagnosis_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::GetJobResponse Job() {
  v1::GetJobResponse job;
  job.mutable_summary()->set_job("mnist");
  job.mutable_summary()->set_size(4);
  v1::Measured* total = job.mutable_diagnosis()->mutable_total();
  total->set_seconds(192.2);
  total->set_steps(1234);
  total->set_own_percent(61.2);
  total->set_waited_percent(31.6);
  total->set_transfer_percent(7.2);
  return job;
}

TEST(DiagnosisTextTest, ARunEndsWithThreeLines) {
  v1::GetJobResponse job = Job();
  job.mutable_diagnosis()->mutable_worst()->set_sentence("rank 1 (node-5) was last in 400 of 1234 steps");
  EXPECT_THAT(SumUpRun(job), ElementsAre("3 min 12 s, 1234 steps: 61 % own, 32 % waiting for ranks, 7 % collectives",
                                         "rank 1 (node-5) was last in 400 of 1234 steps",
                                         "to look closer while it runs: farandole job show mnist, or "
                                         "--timeline-filename; docs/diagnosis.md says how to read it"));
  job.mutable_diagnosis()->clear_worst();
  EXPECT_EQ(SumUpRun(job)[1], "no rank kept the others waiting for long");
}

TEST(DiagnosisTextTest, AShortRunAndOneOfOneWorkerSayNothing) {
  v1::GetJobResponse job = Job();
  job.mutable_diagnosis()->mutable_total()->set_seconds(4.9);
  EXPECT_THAT(SumUpRun(job), IsEmpty());
  job = Job();
  job.mutable_summary()->set_size(1);
  EXPECT_THAT(SumUpRun(job), IsEmpty());
}

TEST(DiagnosisTextTest, AJobShowsWhereItsTimeGoesAndWhatSlowsIt) {
  v1::Diagnosis diagnosis;
  EXPECT_EQ(ShowDiagnosis(diagnosis), "");
  *diagnosis.mutable_total() = Job().diagnosis().total();
  EXPECT_EQ(ShowDiagnosis(diagnosis),
            "time         61 % own, 32 % waiting for ranks, 7 % collectives; 6.4 steps/s (since its start)\n");
  *diagnosis.mutable_now() = diagnosis.total();
  diagnosis.mutable_now()->set_seconds(30);
  diagnosis.mutable_now()->set_steps(300);
  diagnosis.mutable_now()->set_slowdown(1.462);
  v1::Blocker* blocker = diagnosis.add_blockers();
  blocker->set_sentence("rank 1 (node-5) was last\x1b");
  blocker->set_percent(38.4);
  EXPECT_EQ(ShowDiagnosis(diagnosis),
            "time         61 % own, 32 % waiting for ranks, 7 % collectives; 10.0 steps/s (the last 30.0 s)\n"
            "slowdown     1.46: the time, over what it would be without waits for ranks\n"
            "slowed by    rank 1 (node-5) was last? (38 % of the job's time)\n");
}

}  // namespace
}  // namespace farandole
