#include "deploy/cli/text/top_text.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

v1::GetJobResponse Job(int ranks) {
  v1::GetJobResponse job;
  job.mutable_summary()->set_job("t");
  job.mutable_summary()->set_state(v1::JOB_STATE_RUNNING);
  job.mutable_summary()->set_size(static_cast<uint32_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    v1::WorkerStatus* const worker = job.add_workers();
    worker->set_rank(static_cast<uint32_t>(rank));
    worker->mutable_member()->set_hostname("node");
    worker->set_state("live");
    v1::Measured* const measured = worker->mutable_measured();
    measured->set_seconds(30);
    measured->set_steps(300);
    measured->set_own_percent(50);
    // Rank 2 is the one that others wait for.
    measured->set_alone_seconds(rank == 2 ? 9.5 : 0);
  }
  return job;
}

TEST(TopTextTest, TheRankThatOthersWaitForComesFirst) {
  const std::string text = ShowTopJob(Job(4), kNow, 0);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  ASSERT_EQ(lines.size(), 9u) << text;
  EXPECT_THAT(lines[0], HasSubstr("job t, running, epoch 0, 4 workers"));
  EXPECT_THAT(lines[1], HasSubstr("nothing that stands out"));
  EXPECT_THAT(lines[4], HasSubstr("   2  node     10.0  50 %"));
  EXPECT_THAT(lines[4], HasSubstr("9.5 s"));
  EXPECT_THAT(lines[5], HasSubstr("   0  node"));
}

TEST(TopTextTest, AScreenHoldsTheWorstRanksAndSaysHowManyAreMore) {
  const std::string text = ShowTopJob(Job(100), kNow, 20);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 20);
  EXPECT_THAT(text, HasSubstr("ranks more\n"));
  EXPECT_THAT(text, HasSubstr("   2  node"));
}

TEST(TopTextTest, ANarrowScreenHasTheWholeVerdict) {
  v1::GetJobResponse job = Job(4);
  job.mutable_diagnosis()->mutable_now()->set_seconds(30);
  job.mutable_diagnosis()->add_blockers()->set_sentence(
      "rank 1 (node-5) was last in 412 of the last 500 steps; the others waited 3.1 s a minute for it: slow compute");
  EXPECT_THAT(ShowTopJob(job, kNow, 24, 60), HasSubstr("slowed by    rank 1 (node-5) was last in 412 of the last 500\n"
                                                       "             steps; the others waited 3.1 s a minute for it:\n"
                                                       "             slow compute (0 % of the job's time)\n"));
  const std::string few = ShowTopJob(job, kNow, 12, 60);
  EXPECT_LE(std::count(few.begin(), few.end(), '\n'), 12) << few;
  job.mutable_diagnosis()->mutable_blockers(0)->set_sentence(std::string(200, 'x'));
  EXPECT_THAT(ShowTopJob(job, kNow, 24, 60), HasSubstr("slowed by    xxx")) << "a word that is longer than the screen";
}

TEST(TopTextTest, OfEachJobItIsSaidWhatSlowsItDown) {
  v1::JobSummary slow;
  slow.set_job("slow");
  slow.set_state(v1::JOB_STATE_RUNNING);
  slow.set_blocker("rank 1 was last");
  slow.set_steps_per_second(2.5);
  v1::JobSummary over;
  over.set_job("over");
  over.set_state(v1::JOB_STATE_FAILED);
  over.set_reason("rank 3 died");
  const std::string text = ShowTopJobs({slow, over}, kNow, 0);
  EXPECT_THAT(text, HasSubstr("2 jobs\n"));
  EXPECT_THAT(text, HasSubstr("running        0  2.5/s        0.0/s"));
  EXPECT_THAT(text, HasSubstr("failed         0      -            -"));
  EXPECT_THAT(text, HasSubstr("rank 1 was last"));
  EXPECT_THAT(text, HasSubstr("rank 3 died"));
  EXPECT_THAT(ShowTopJobs({slow, over}, kNow, 5), Not(HasSubstr("rank 3 died")));
}

TEST(TopTextTest, NothingRemainsOfTheTextBefore) { EXPECT_EQ(DrawOver("a\nb"), "\x1b[Ha\x1b[K\nb\x1b[K\x1b[J"); }

TEST(TopTextTest, AScreenIsNotOverrun) {
  EXPECT_EQ(FitToScreen("abcdef\nxy\nz", 4, 2), "abcd\nxy");
  EXPECT_EQ(FitToScreen("\xC3\xA9\xC3\xA9\xC3\xA9", 2, 9), "\xC3\xA9\xC3\xA9");
  EXPECT_EQ(FitToScreen("", 4, 2), "");
}

}  // namespace
}  // namespace farandole
