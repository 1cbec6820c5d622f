#include "server/loop/mailbox.h"

#include <string>
#include <thread>
#include <vector>

#include "base/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

const JobKey kJob = {"default", "train"};

TEST(MailboxTest, DeliversEventsInTheOrderInWhichTheyWerePushed) {
  Mailbox mailbox;
  for (CallId call = 1; call <= 3; ++call) ASSERT_TRUE(mailbox.Push(kJob, JobInspected{call}).ok());
  const Mailbox::Delivery delivery = mailbox.Take(absl::InfiniteFuture());
  ASSERT_EQ(delivery.letters.size(), 3u);
  for (CallId call = 1; call <= 3; ++call) {
    EXPECT_EQ(std::get<JobInspected>(delivery.letters[call - 1].event).call, call);
  }
}

TEST(MailboxTest, RefusesWhatIsBeyondAJobsCapacityUntilItsEventsAreReleased) {
  Mailbox mailbox(/*capacity_per_job=*/2);
  ASSERT_TRUE(mailbox.Push(kJob, JobInspected{1}).ok());
  ASSERT_TRUE(mailbox.Push(kJob, JobInspected{2}).ok());
  const absl::Status full = mailbox.Push(kJob, JobInspected{3});
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("job default/train has 2 events waiting, at most 2 may wait"));

  mailbox.Take(absl::InfiniteFuture());
  EXPECT_FALSE(mailbox.Push(kJob, JobInspected{3}).ok()) << "delivered events wait for their Step still";
  mailbox.Release(kJob, 1);
  EXPECT_TRUE(mailbox.Push(kJob, JobInspected{3}).ok());
  EXPECT_EQ(mailbox.depth(), 2u);
}

TEST(MailboxTest, OneJobsEventsTakeNothingFromAnothersCapacity) {
  Mailbox mailbox(/*capacity_per_job=*/1);
  ASSERT_TRUE(mailbox.Push(kJob, JobInspected{1}).ok());
  EXPECT_TRUE(mailbox.Push({"other", "train"}, JobInspected{2}).ok());
}

TEST(MailboxTest, TheEndOfAStreamIsTakenAboveTheCapacity) {
  Mailbox mailbox(/*capacity_per_job=*/1);
  ASSERT_TRUE(mailbox.Push(kJob, JobInspected{1}).ok());
  EXPECT_TRUE(mailbox.Push(kJob, StreamClosed{7, "broken"}).ok());
}

TEST(MailboxTest, AnEmptyMailboxGivesNothingAtTheDeadline) {
  Mailbox mailbox;
  const Mailbox::Delivery delivery = mailbox.Take(SteadyNow() - absl::Seconds(1));
  EXPECT_TRUE(delivery.letters.empty());
  EXPECT_FALSE(delivery.closed);
}

TEST(MailboxTest, ClosedItDeliversWhatWaitsRefusesEventsAndStillTakesCompletions) {
  Mailbox mailbox;
  ASSERT_TRUE(mailbox.Push(kJob, JobInspected{1}).ok());
  mailbox.Close();
  EXPECT_EQ(mailbox.Push(kJob, JobInspected{2}).code(), absl::StatusCode::kUnavailable);
  const Mailbox::Delivery first = mailbox.Take(absl::InfiniteFuture());
  EXPECT_TRUE(first.closed);
  EXPECT_EQ(first.letters.size(), 1u);
  std::thread completer([&] { mailbox.Post([] {}); });
  EXPECT_EQ(mailbox.Take(absl::InfiniteFuture()).completions.size(), 1u);
  completer.join();
}

TEST(MailboxTest, NothingIsLostBetweenManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kEvents = 1000;
  Mailbox mailbox;
  std::vector<std::thread> pushers;
  for (int thread = 0; thread < kThreads; ++thread) {
    pushers.emplace_back([&mailbox, thread] {
      const JobKey job = {"default", std::string(1, static_cast<char>('a' + thread))};
      for (CallId call = 1; call <= kEvents; ++call) EXPECT_TRUE(mailbox.Push(job, JobInspected{call}).ok());
    });
  }
  std::vector<CallId> last(kThreads, 0);
  for (int taken = 0; taken < kThreads * kEvents;) {
    const Mailbox::Delivery delivery = mailbox.Take(absl::InfiniteFuture());
    for (const Mailbox::Letter& letter : delivery.letters) {
      CallId& before = last[static_cast<size_t>(letter.job.job[0] - 'a')];
      EXPECT_EQ(std::get<JobInspected>(letter.event).call, before + 1);
      ++before;
      ++taken;
      mailbox.Release(letter.job, 1);
    }
  }
  for (std::thread& pusher : pushers) pusher.join();
  EXPECT_EQ(mailbox.depth(), 0u);
}

}  // namespace
}  // namespace farandole
