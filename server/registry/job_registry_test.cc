#include "server/registry/job_registry.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "farandole/v1/store.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

v1::JobSummary Job(const std::string& tenant, const std::string& job, v1::JobState state, int64_t created) {
  v1::JobSummary summary;
  summary.set_tenant(tenant);
  summary.set_job(job);
  summary.set_state(state);
  summary.set_wanted_size(2);
  summary.set_created_unix_ms(created);
  return summary;
}

TEST(JobRegistryTest, ListsTheNewestFirstAndOneTenantsOwn) {
  JobRegistry registry;
  registry.Update({"a", "old"}, Job("a", "old", v1::JOB_STATE_FINISHED, 1));
  registry.Update({"a", "new"}, Job("a", "new", v1::JOB_STATE_RUNNING, 3));
  registry.Update({"b", "mid"}, Job("b", "mid", v1::JOB_STATE_FAILED, 2));
  const auto names = [&](const std::string& tenant) {
    std::vector<std::string> found;
    for (const v1::JobSummary& job : registry.List(tenant, JobPlace(), 10)) found.push_back(job.job());
    return found;
  };
  EXPECT_THAT(names(""), ::testing::ElementsAre("new", "mid", "old"));
  EXPECT_THAT(names("a"), ::testing::ElementsAre("new", "old"));
}

TEST(JobRegistryTest, ListsInPartsAlsoJobsOfOneMoment) {
  JobRegistry registry;
  for (const char* name : {"a", "b", "c"}) registry.Update({"t", name}, Job("t", name, v1::JOB_STATE_RUNNING, 5));
  registry.Update({"t", "newest"}, Job("t", "newest", v1::JOB_STATE_RUNNING, 9));
  registry.Update({"t", "oldest"}, Job("t", "oldest", v1::JOB_STATE_RUNNING, 1));
  std::vector<std::string> found;
  JobPlace after;
  for (std::vector<v1::JobSummary> page; !(page = registry.List("", after, 2)).empty();) {
    EXPECT_LE(page.size(), 2u);
    for (const v1::JobSummary& job : page) found.push_back(job.job());
    after = PlaceOf(page.back());
    // Its place counts, not the job.
    registry.Forget(after.key);
  }
  EXPECT_THAT(found, ::testing::ElementsAre("newest", "a", "b", "c", "oldest"));
  EXPECT_FALSE(registry.Find({"t", "oldest"}).has_value());
}

TEST(JobRegistryTest, AJobHasOnePlaceInTheListHoweverItChanges) {
  JobRegistry registry;
  const auto listed = [&] {
    std::vector<std::string> found;
    for (const char* tenant : {"", "a"}) {
      for (const v1::JobSummary& job : registry.List(tenant, JobPlace(), 10))
        found.push_back(absl::StrCat(job.job(), "@", job.created_unix_ms()));
    }
    return found;
  };
  const JobKey key{"a", "job"};
  registry.Update(key, Job("a", "job", v1::JOB_STATE_FORMING, 5));
  registry.Update(key, Job("a", "job", v1::JOB_STATE_RUNNING, 5));
  EXPECT_THAT(listed(), ::testing::ElementsAre("job@5", "job@5"));
  registry.Update(key, Job("a", "job", v1::JOB_STATE_FORMING, 7));
  EXPECT_THAT(listed(), ::testing::ElementsAre("job@7", "job@7")) << "it was begun anew";
  registry.ShowQueued(key, Job("a", "job", v1::JOB_STATE_QUEUED, 9));
  registry.Update(key, Job("a", "job", v1::JOB_STATE_FINISHED, 8));
  EXPECT_THAT(listed(), ::testing::ElementsAre("job@9", "job@9"));
  registry.Forget(key);
  EXPECT_THAT(listed(), ::testing::ElementsAre("job@9", "job@9")) << "its next launch waits";
  registry.ShowQueued(key, std::nullopt);
  EXPECT_THAT(listed(), ::testing::IsEmpty());
}

TEST(JobRegistryTest, APageCostsThatPageHoweverManyJobsAreKept) {
  const auto time_of_pages = [](int jobs) {
    JobRegistry registry;
    for (int i = 0; i < jobs; ++i) {
      const std::string name = absl::StrCat("job-", i);
      registry.Update({"a", name}, Job("a", name, v1::JOB_STATE_FINISHED, i + 1));
    }
    absl::Duration least = absl::InfiniteDuration();
    for (int round = 0; round < 5; ++round) {
      const absl::Time begin = absl::Now();
      for (int i = 0; i < 100; ++i) EXPECT_EQ(registry.List("a", JobPlace(), 2).size(), 2u);
      least = std::min(least, (absl::Now() - begin) / 100);
    }
    return least;
  };
  const absl::Duration few = time_of_pages(100);
  const absl::Duration many = time_of_pages(10'000);
  EXPECT_LT(many, 20 * few + absl::Microseconds(20)) << few << " with a hundredth of the jobs";
}

TEST(JobRegistryTest, TenantsOfWhichJobsWereForgottenAreTold) {
  JobRegistry registry;
  for (const char* tenant : {"a", "b"}) registry.Update({tenant, "x"}, Job(tenant, "x", v1::JOB_STATE_FINISHED, 1));
  uint64_t seen = 0;
  EXPECT_THAT(registry.ListForgetful(&seen), ::testing::IsEmpty());
  registry.Forget({"a", "x"});
  EXPECT_THAT(registry.ListForgetful(&seen), ::testing::ElementsAre("a"));
  EXPECT_THAT(registry.ListForgetful(&seen), ::testing::IsEmpty());
  registry.Forget({"b", "x"});
  EXPECT_THAT(registry.ListForgetful(&seen), ::testing::ElementsAre("b"));
}

std::vector<std::string> NamesOf(const std::vector<EndedJob>& jobs) {
  std::vector<std::string> names;
  for (const EndedJob& job : jobs) names.push_back(absl::StrCat(job.key.Text(), "@", job.ended_unix_ms));
  return names;
}

TEST(JobRegistryTest, EndedJobsAreOverdueByTheirAgeAndTheirNumber) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  JobRegistry registry;
  const auto end = [&](const std::string& tenant, const std::string& job, int64_t at) {
    v1::JobSummary summary = Job(tenant, job, v1::JOB_STATE_FINISHED, 1);
    summary.set_ended_unix_ms(at);
    registry.Update({tenant, job}, summary);
  };
  for (int i = 0; i < 4; ++i) end("a", absl::StrCat("j", i), 1000 + i);
  end("b", "old", 500);
  end("b", "new", 2000);
  registry.Update({"b", "runs"}, Job("b", "runs", v1::JOB_STATE_RUNNING, 1));
  const auto overdue = [&](int64_t oldest, size_t jobs, size_t most = 100) {
    const absl::Time now = absl::FromUnixMillis(oldest) + absl::Hours(1);
    return NamesOf(registry.Overdue({absl::Hours(1), jobs}, now, most));
  };
  EXPECT_THAT(overdue(500, 4), IsEmpty());
  EXPECT_THAT(overdue(501, 4), ElementsAre("b/old@500"));
  EXPECT_THAT(overdue(1002, 4), ElementsAre("a/j0@1000", "b/old@500", "a/j1@1001"));
  EXPECT_THAT(overdue(0, 1), ElementsAre("a/j0@1000", "b/old@500", "a/j1@1001", "a/j2@1002"));
  EXPECT_THAT(overdue(0, 0, 3), ElementsAre("a/j0@1000", "b/old@500", "a/j1@1001")) << "no tenant waits for another";
  registry.Update({"a", "j0"}, Job("a", "j0", v1::JOB_STATE_RUNNING, 1));
  registry.Forget({"b", "old"});
  EXPECT_THAT(overdue(0, 1), ElementsAre("a/j1@1001", "a/j2@1002"));
}

TEST(JobRegistryTest, EndedPartsTakeNoPlaceOfOtherJobs) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  JobRegistry registry;
  const auto end = [&](const std::string& job, int64_t at, const std::string& part_of) {
    v1::JobSummary summary = Job("a", job, v1::JOB_STATE_FAILED, 1);
    summary.set_ended_unix_ms(at);
    summary.set_part_of(part_of);
    registry.Update({"a", job}, summary);
  };
  Retention retention;
  retention.jobs = 2;
  retention.parts = 3;
  const auto overdue = [&] { return NamesOf(registry.Overdue(retention, absl::FromUnixMillis(2000), 100)); };
  end("precious", 1000, "");
  for (int i = 0; i < 3; ++i) end(absl::StrCat("train.", i), 1001 + i, "train");
  end("train", 1010, "");
  EXPECT_THAT(overdue(), IsEmpty());
  end("train.3", 1004, "train");
  end("train.4", 1005, "train");
  EXPECT_THAT(overdue(), ElementsAre("a/train.0@1001", "a/train.1@1002"));
  registry.Forget({"a", "train.0"});
  end("train.1", 1006, "");
  EXPECT_THAT(overdue(), ElementsAre("a/precious@1000")) << "it was launched since";
  retention.age = absl::Milliseconds(996);
  EXPECT_THAT(overdue(), ElementsAre("a/precious@1000", "a/train.2@1003"));
}

absl::Status Fits(const Usages&) { return absl::OkStatus(); }
absl::Status IsFull(const Usages&) { return absl::ResourceExhaustedError("full"); }

TEST(JobRegistryTest, RoomIsHeldUntilTheJobIsOrIsNot) {
  JobRegistry registry;
  const JobKey key = {"a", "first"};
  int heard = 0;
  registry.SetRoomListener([&] { ++heard; });
  EXPECT_EQ(registry.Admit(key, 2, false, IsFull).message(), "full");
  EXPECT_FALSE(registry.HasRoom(key));
  ASSERT_TRUE(registry.Admit(key, 2, false, Fits).ok());
  EXPECT_TRUE(registry.List("a", JobPlace(), 10).empty()) << "room is no job yet";
  EXPECT_TRUE(registry.Admit(key, 2, false, IsFull).ok()) << "it has its room already";
  EXPECT_EQ(registry.Admit(key, 3, false, IsFull).message(), "full");
  EXPECT_EQ(registry.ReadUsages().at("a").workers, 2u);
  registry.Update(key, v1::JobSummary(), /*is_claimed=*/true);
  EXPECT_TRUE(registry.HasRoom(key)) << "its launch has the job";
  EXPECT_EQ(heard, 0);
  registry.Update(key, v1::JobSummary());
  EXPECT_FALSE(registry.Knows(key));
  EXPECT_TRUE(registry.ReadUsages().empty());
  EXPECT_EQ(heard, 1);
}

TEST(JobRegistryTest, AnotherLaunchOfAJobThatHasRunKeepsItsRoom) {
  JobRegistry registry;
  const JobKey key = {"a", "first"};
  registry.Update(key, Job("a", "first", v1::JOB_STATE_FINISHED, 1));
  ASSERT_TRUE(registry.Admit(key, 3, /*is_on_its_way=*/true, Fits).ok());
  // Somebody looks at the job before its launch has come to it.
  registry.Update(key, Job("a", "first", v1::JOB_STATE_FINISHED, 1));
  EXPECT_EQ(registry.ReadUsages().at("a").workers, 3u);
  ASSERT_TRUE(registry.Admit(key, 3, /*is_on_its_way=*/false, IsFull).ok());
  registry.Update(key, Job("a", "first", v1::JOB_STATE_FINISHED, 1), /*is_claimed=*/true);
  EXPECT_EQ(registry.ReadUsages().at("a").workers, 3u);
  registry.Update(key, Job("a", "first", v1::JOB_STATE_FORMING, 1), /*is_claimed=*/false);
  EXPECT_EQ(registry.ReadUsages().at("a").workers, 2u) << "as many as its first worker wants";
  registry.Update(key, Job("a", "first", v1::JOB_STATE_FAILED, 1));
  EXPECT_TRUE(registry.ReadUsages().empty());
}

TEST(JobRegistryTest, UsageIsThatOfTheOtherJobs) {
  JobRegistry registry;
  registry.Update({"a", "runs"}, Job("a", "runs", v1::JOB_STATE_RUNNING, 1));
  ASSERT_TRUE(registry.Admit({"a", "next"}, 3, false, Fits).ok());
  ASSERT_TRUE(registry
                  .Admit({"a", "next"}, 5, false,
                         [](const Usages& usages) {
                           EXPECT_EQ(usages.at("a").jobs, 1u);
                           EXPECT_EQ(usages.at("a").workers, 2u);
                           return absl::OkStatus();
                         })
                  .ok());
  EXPECT_EQ(registry.ReadUsages().at("a").workers, 7u);
  registry.Release({"a", "next"});
  registry.Forget({"a", "runs"});
  EXPECT_TRUE(registry.ReadUsages().empty());
}

TEST(JobRegistryTest, ARefusalTakesNoLongerWhereThereAreManyTenants) {
  JobRegistry registry;
  for (int i = 0; i < 30'000; ++i) {
    const std::string tenant = absl::StrCat("a tenant with a long name ", i);
    registry.Update({tenant, "runs"}, Job(tenant, "runs", v1::JOB_STATE_RUNNING, 1));
  }
  const absl::Time begun = absl::Now();
  for (int i = 0; i < 2'000; ++i) EXPECT_FALSE(registry.Admit({"a", "next"}, 3, false, IsFull).ok());
  EXPECT_LT(absl::Now() - begun, absl::Seconds(1)) << "with a copy of all usages it would be several";
  EXPECT_EQ(registry.ReadUsages("a").size(), 0u) << "nothing is left of them";
}

TEST(JobRegistryTest, ALaunchInTheQueueIsShownInThePlaceOfItsJob) {
  JobRegistry registry;
  registry.Update({"a", "ran"}, Job("a", "ran", v1::JOB_STATE_FINISHED, 1));
  uint64_t seen = 0;
  registry.ListChanged(&seen);
  registry.ShowQueued({"a", "ran"}, Job("a", "ran", v1::JOB_STATE_QUEUED, 2));
  registry.ShowQueued({"a", "new"}, Job("a", "new", v1::JOB_STATE_QUEUED, 3));
  const auto states = [&] {
    std::vector<std::string> shown;
    for (const v1::JobSummary& job : registry.List("a", JobPlace(), 10))
      shown.push_back(absl::StrCat(job.job(), " ", job.state()));
    return shown;
  };
  EXPECT_THAT(states(), ::testing::ElementsAre("new 5", "ran 5"));
  EXPECT_EQ(registry.ListChanged(&seen).size(), 2u);
  EXPECT_EQ(registry.Find({"a", "ran"})->state(), v1::JOB_STATE_QUEUED) << "as the list shows it";
  EXPECT_TRUE(registry.HasEnded({"a", "ran"})) << "whatever its launch that waits does";
  EXPECT_FALSE(registry.HasEnded({"a", "new"}));
  EXPECT_FALSE(registry.HasRoom({"a", "new"}));
  EXPECT_TRUE(registry.IsShown({"a", "new"}));
  uint64_t seen_forgotten = 0;
  registry.ShowQueued({"a", "ran"}, std::nullopt);
  EXPECT_THAT(registry.ListForgetful(&seen_forgotten), ::testing::IsEmpty());
  registry.ShowQueued({"a", "new"}, std::nullopt);
  EXPECT_THAT(registry.ListForgetful(&seen_forgotten), ::testing::ElementsAre("a"));
  EXPECT_THAT(states(), ::testing::ElementsAre("ran 3"));
  EXPECT_FALSE(registry.IsShown({"a", "new"}));
}

TEST(JobRegistryTest, ARowThatIsNoRecordIsNamed) {
  JobRegistry registry;
  const std::vector<StoreRow> rows = {{"summary/a/x", "\xff\xff"}};
  const absl::Status status = registry.Load(rows);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("summary/a/x"));
}

TEST(JobRegistryTest, CountsTheLaunchesThatWaitAndTheirWorkers) {
  JobRegistry registry;
  registry.Update({"a", "runs"}, Job("a", "runs", v1::JOB_STATE_RUNNING, 1));
  for (const char* name : {"x", "y"}) registry.ShowQueued({"a", name}, Job("a", name, v1::JOB_STATE_QUEUED, 2));
  registry.ShowQueued({"b", "x"}, Job("b", "x", v1::JOB_STATE_QUEUED, 2));
  // Its place is told once more.
  registry.ShowQueued({"a", "x"}, Job("a", "x", v1::JOB_STATE_QUEUED, 2));
  EXPECT_EQ(registry.ReadQueued().at("a").jobs, 2u);
  EXPECT_EQ(registry.ReadQueued().at("a").workers, 4u);
  EXPECT_EQ(registry.ReadQueued().at("b").workers, 2u);
  EXPECT_EQ(registry.ReadQueued("b").size(), 1u);
  EXPECT_EQ(registry.ReadQueued("b").at("b").workers, 2u);
  EXPECT_TRUE(registry.ReadQueued("nobody").empty());
  for (const char* name : {"x", "x", "y"}) registry.ShowQueued({"a", name}, std::nullopt);
  EXPECT_EQ(registry.ReadQueued().count("a"), 0u);
  EXPECT_EQ(registry.ReadQueued().at("b").jobs, 1u);
}

}  // namespace
}  // namespace farandole
