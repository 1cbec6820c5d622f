#include "deploy/launcher/output/job_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::HasSubstr;

std::string FreshDirectory() {
  std::string pattern = absl::StrCat(testing::TempDir(), "/jobs.XXXXXX");
  return mkdtemp(pattern.data());
}

TEST(JobDirectoryTest, RunsOfOneNameGetNumbersAndGiveThemBack) {
  const std::string jobs = FreshDirectory() + "/not/there/yet";
  const absl::StatusOr<JobDirectory> first = JobDirectory::OpenNext(jobs, "train");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->job(), "train");
  EXPECT_EQ(first->path(), jobs + "/train");
  {
    const absl::StatusOr<JobDirectory> second = JobDirectory::OpenNext(jobs, "train");
    EXPECT_EQ(second->job(), "train-2");
    EXPECT_EQ(JobDirectory::OpenNext(jobs, "train")->job(), "train-3");
  }
  EXPECT_EQ(JobDirectory::OpenNext(jobs, "train")->job(), "train-2");
}

TEST(JobDirectoryTest, ANamedJobThatRunsAlreadyIsAnErrorThatNamesItsLauncher) {
  const std::string path = FreshDirectory() + "/train";
  const absl::StatusOr<JobDirectory> first = JobDirectory::Open(path, "train");
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = JobDirectory::Open(path, "train").status();
  EXPECT_TRUE(absl::IsAlreadyExists(second));
  EXPECT_THAT(
      std::string(second.message()),
      HasSubstr(absl::StrCat("job 'train' is running already: the launcher with pid ", getpid(), " holds ", path)));
}

TEST(JobDirectoryTest, TheDirectoryIsForThisUserOnly) {
  const absl::StatusOr<JobDirectory> directory = JobDirectory::Open(FreshDirectory() + "/train", "train");
  ASSERT_TRUE(directory.ok()) << directory.status();
  struct stat status {};
  ASSERT_EQ(stat(directory->path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST(JobDirectoryTest, APlaceThatCannotBeMadeIsNamed) {
  const absl::Status status = JobDirectory::Open("/dev/null/jobs", "train").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot make directory /dev/null: Not a directory"));
}

TEST(JobDirectoryTest, ALockThatIsALinkToAnotherFileIsRefusedAndTheFileStays) {
  const std::string place = FreshDirectory();
  const std::string precious = place + "/precious";
  std::ofstream(precious) << "data";
  for (const bool is_symbolic : {true, false}) {
    const std::string path = absl::StrCat(place, "/", is_symbolic);
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    const std::string lock = path + "/launcher.lock";
    ASSERT_EQ(is_symbolic ? symlink(precious.c_str(), lock.c_str()) : link(precious.c_str(), lock.c_str()), 0);
    const absl::Status status = JobDirectory::Open(path, "train").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(status.message()), HasSubstr(lock));
    std::string kept;
    std::getline(std::ifstream(precious), kept);
    EXPECT_EQ(kept, "data");
  }
}

}  // namespace
}  // namespace farandole::launcher
