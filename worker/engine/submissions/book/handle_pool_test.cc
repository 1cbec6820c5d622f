#include "worker/engine/submissions/book/handle_pool.h"

#include <set>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(HandlePoolTest, FindsWhatIsHeldAndNothingElse) {
  HandlePool pool(0);
  Submission* first = pool.Allocate();
  Submission* second = pool.Allocate();
  EXPECT_EQ(pool.Find(first->handle), first);
  EXPECT_EQ(pool.Find(second->handle), second);
  for (const int64_t wrong : {int64_t{0}, int64_t{-1}, second->handle + 1, second->handle + (int64_t{1} << 24)}) {
    EXPECT_EQ(pool.Find(wrong), nullptr) << wrong;
  }
  first->released = true;
  EXPECT_EQ(pool.Find(first->handle), nullptr);
}

TEST(HandlePoolTest, AParkedSubmissionKeepsItsDescriptionAndLosesItsHandle) {
  HandlePool pool(0);
  Submission* const submission = pool.Allocate();
  submission->dims.push_back(3);
  submission->slot = 7;
  submission->released = true;
  const int64_t handle = submission->handle;
  pool.Park(submission);
  EXPECT_EQ(pool.Find(handle), nullptr);
  EXPECT_EQ(pool.Find(submission->handle), nullptr);
  EXPECT_NE(pool.Allocate(), submission);
  pool.Reuse(submission);
  EXPECT_NE(submission->handle, handle);
  EXPECT_EQ(pool.Find(submission->handle), submission);
  EXPECT_EQ(submission->dims.size(), 1u);
  EXPECT_EQ(submission->slot, 0u);
  EXPECT_GT(pool.next_handles(), submission->handle);
  pool.Park(submission);
  pool.Recycle(submission);
  EXPECT_EQ(pool.Allocate(), submission);
  EXPECT_TRUE(submission->dims.empty());
}

TEST(HandlePoolTest, UsesASubmissionAgainUnderAnotherHandle) {
  HandlePool pool(0);
  Submission* submission = pool.Allocate();
  std::set<int64_t> handles;
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(handles.insert(submission->handle).second);
    submission->dims.push_back(3);
    submission->splits.push_back(3);
    submission->slot = 7;
    submission->released = true;
    submission->complete.store(true);
    submission->status = absl::AbortedError("over");
    const int64_t handle = submission->handle;
    pool.Recycle(submission);
    EXPECT_EQ(pool.Find(handle), nullptr);
    ASSERT_EQ(pool.Allocate(), submission);
    EXPECT_TRUE(submission->dims.empty());
    EXPECT_TRUE(submission->splits.empty());
    EXPECT_EQ(submission->slot, 0u);
    EXPECT_FALSE(submission->complete.load());
    EXPECT_TRUE(submission->status.ok());
    EXPECT_EQ(pool.Find(submission->handle), submission);
  }
  EXPECT_EQ(pool.submissions().size(), 1u);
}

TEST(HandlePoolTest, TheNextPoolGivesNoHandleThatThisOneHasGiven) {
  HandlePool pool(0);
  std::set<int64_t> handles;
  Submission* submission = pool.Allocate();
  for (int i = 0; i < 3; ++i) {
    handles.insert(submission->handle);
    pool.Recycle(submission);
    submission = pool.Allocate();
  }
  handles.insert(submission->handle);
  handles.insert(pool.Allocate()->handle);
  HandlePool next(pool.next_handles());
  for (int i = 0; i < 3; ++i) {
    const int64_t handle = next.Allocate()->handle;
    EXPECT_EQ(handles.count(handle), 0u) << handle;
    EXPECT_EQ(pool.Find(handle), nullptr) << handle;
  }
  for (const int64_t handle : handles) EXPECT_EQ(next.Find(handle), nullptr) << handle;
}

}  // namespace
}  // namespace farandole
