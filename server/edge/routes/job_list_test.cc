#include "server/edge/routes/job_list.h"

#include <memory>
#include <random>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

JobRegistry::Shown Job(const std::string& name, v1::JobState state, int64_t created, const std::string& reason = "") {
  v1::JobSummary job;
  job.set_tenant("team");
  job.set_job(name);
  job.set_state(state);
  job.set_created_unix_ms(created);
  job.set_reason(reason);
  return std::make_shared<const v1::JobSummary>(job);
}

std::vector<std::string> NamesOf(const FoundJobs& found) {
  std::vector<std::string> names;
  for (const JobRegistry::Shown& job : found.rows) names.push_back(job->job());
  return names;
}

TEST(TextSearchTest, FindsWhatIsThereInAnyCase) {
  EXPECT_TRUE(TextSearch("").IsIn({}));
  EXPECT_FALSE(TextSearch("a").IsIn({}));
  EXPECT_TRUE(TextSearch("M/mN").IsIn({"team", "/", "MNIST"}));
  EXPECT_FALSE(TextSearch("mm").IsIn({"team", "/", "MNIST"}));
  // Every text of a small alphabet in every other one, against the library's search.
  std::mt19937 random(7);
  const auto text_of = [&](size_t most) {
    std::string text(random() % (most + 1), ' ');
    for (char& c : text) c = "abAB"[random() % 4];
    return text;
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = text_of(6), first = text_of(12), second = text_of(12);
    const bool is_in = absl::StrContains(absl::AsciiStrToLower(first + second), absl::AsciiStrToLower(text));
    EXPECT_EQ(TextSearch(text).IsIn({first, second}), is_in) << text << " in " << first << second;
  }
}

// Each of a million positions agrees in 255 bytes, or all but one, so that a search which begins anew at each would
// compare some 250 million.
TEST(TextSearchTest, TakesTheTimeOfTheBytesWhateverTheyAre) {
  const std::string text(1 << 20, 'a');
  const auto time_of = [&text](const std::string& wanted) {
    const absl::Time begin = SteadyNow();
    EXPECT_FALSE(TextSearch(wanted).IsIn({text}));
    return SteadyNow() - begin;
  };
  const absl::Duration harmless = time_of("bcd");
  EXPECT_LT(time_of(std::string(255, 'a') + "z"), 20 * harmless + absl::Milliseconds(5));
  EXPECT_LT(time_of("z" + std::string(255, 'a')), 20 * harmless + absl::Milliseconds(5));
}

TEST(JobListTest, AQueryChoosesOrdersAndCounts) {
  const JobRegistry::Shown jobs[] = {Job("old", v1::JOB_STATE_FINISHED, 1), Job("stuck", v1::JOB_STATE_RUNNING, 2),
                                     Job("lost", v1::JOB_STATE_FAILED, 3, "Rank 3 was LOST"),
                                     Job("b", v1::JOB_STATE_FINISHED, 4), Job("a", v1::JOB_STATE_FINISHED, 4)};
  EXPECT_THAT(NamesOf(FindJobs(jobs, "")), ElementsAre("a", "b", "lost", "stuck", "old"));
  EXPECT_THAT(NamesOf(FindJobs(jobs, "order=urgency")), ElementsAre("stuck", "lost", "a", "b", "old"));
  EXPECT_THAT(NamesOf(FindJobs(jobs, "offset=1&limit=2")), ElementsAre("b", "lost"));
  EXPECT_THAT(NamesOf(FindJobs(jobs, "state=running&state=failed")), ElementsAre("lost", "stuck"));
  EXPECT_THAT(NamesOf(FindJobs(jobs, "search=was+lost")), ElementsAre("lost"));
  const FoundJobs found = FindJobs(jobs, "search=team%2FO&limit=0");
  EXPECT_THAT(found.states, UnorderedElementsAre(Pair("finished", 3), Pair("running", 1), Pair("failed", 1)));
  EXPECT_EQ(found.found, 1u);
  EXPECT_TRUE(found.rows.empty());
}

TEST(JobListTest, ASearchTellsTheBytesThatItHasLookedAt) {
  const JobRegistry::Shown jobs[] = {Job("a", v1::JOB_STATE_FAILED, 1, std::string(1000, 'x')),
                                     Job("b", v1::JOB_STATE_FINISHED, 2, std::string(1000, 'x'))};
  EXPECT_EQ(FindJobs(jobs, "").searched_bytes, 0u);
  EXPECT_EQ(FindJobs(jobs, "search=y").searched_bytes, 2 * 1008u);
  EXPECT_EQ(FindJobs(jobs, "search=y&state=failed").searched_bytes, 1008u);
}

}  // namespace
}  // namespace farandole
