#include "server/registry/job_updates.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(JobUpdatesTest, AReaderGetsWhatItHasNotSeenEachJobOnceTheLatestLast) {
  JobUpdates updates;
  uint64_t seen = 0;
  EXPECT_THAT(updates.After(&seen), IsEmpty());
  const JobKey first{"a", "first"}, second{"a", "second"}, third{"b", "third"};
  updates.Note(first);
  updates.Note(second);
  updates.Note(first);
  EXPECT_THAT(updates.After(&seen), ElementsAre(second, first));
  EXPECT_THAT(updates.After(&seen), IsEmpty());
  updates.Note(third);
  updates.Note(second);
  EXPECT_THAT(updates.After(&seen), ElementsAre(third, second));
  uint64_t newcomer = 0;
  EXPECT_THAT(updates.After(&newcomer), ElementsAre(first, third, second));
  EXPECT_EQ(newcomer, seen);
}

TEST(JobUpdatesTest, AJobThatIsGoneIsNotGivenAndItsNumberNotTakenAgain) {
  JobUpdates updates;
  const JobKey gone{"a", "gone"}, kept{"a", "kept"};
  updates.Erase(gone);
  updates.Note(kept);
  updates.Note(gone);
  uint64_t seen = 0;
  updates.After(&seen);
  updates.Erase(gone);
  updates.Note(kept);
  EXPECT_THAT(updates.After(&seen), ElementsAre(kept));
  updates.Note(gone);
  EXPECT_THAT(updates.After(&seen), ElementsAre(gone));
}

}  // namespace
}  // namespace farandole
