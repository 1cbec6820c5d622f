#include "server/edge/messages/large_reader.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/retry/retry_delay.h"
#include "base/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/bytes/byte_ledger.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Kind = LargeReader::Kind;

constexpr absl::Duration kDeadline = absl::Seconds(30);
constexpr int64_t kWireBytes = 1 << 20;

// The outcomes of messages, in the order of their ends.
class Ends {
 public:
  void Add(const std::string& end) {
    absl::MutexLock lock(&mutex_);
    ends_.push_back(end);
  }
  // When there are so many.
  std::vector<std::string> Await(size_t count) const {
    absl::MutexLock lock(&mutex_);
    const auto has_all = [this, count] { return ends_.size() >= count; };
    mutex_.AwaitWithTimeout(absl::Condition(&has_all), kDeadline);
    return ends_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<std::string> ends_ ABSL_GUARDED_BY(mutex_);
};

// A message of a test.
struct Plan {
  std::string name;
  absl::StatusOr<int64_t> memory_bytes = 1;
  // It is weighed when this is notified; null: at once.
  absl::Notification* weighed = nullptr;
  // Why nobody waits for it, when this is true.
  std::atomic<bool>* is_gone = nullptr;
  absl::Status why_gone = absl::CancelledError("");
  // How often it was told to wait on, and weighed.
  std::atomic<int>* waits = nullptr;
  std::atomic<int>* weighings = nullptr;
};

class PlannedMessage : public LargeMessage {
 public:
  PlannedMessage(Plan plan, Ends* ends) : plan_(std::move(plan)), ends_(ends) {}

  absl::StatusOr<int64_t> Weigh() override {
    if (plan_.weighings != nullptr) ++*plan_.weighings;
    if (plan_.weighed != nullptr) plan_.weighed->WaitForNotification();
    return plan_.memory_bytes;
  }
  int64_t Read() override {
    ends_->Add(plan_.name);
    return *plan_.memory_bytes;
  }
  void Refuse(const absl::Status& status) override {
    ends_->Add(absl::StrCat(plan_.name, " ", absl::StatusCodeToString(status.code())));
  }
  absl::Status WaitOn() override {
    if (plan_.waits != nullptr) ++*plan_.waits;
    return plan_.is_gone != nullptr && *plan_.is_gone ? plan_.why_gone : absl::OkStatus();
  }

 private:
  const Plan plan_;
  Ends* const ends_;
};

class LargeReaderTest : public ::testing::Test {
 protected:
  absl::Status Add(LargeReader::Sender sender, Plan plan, Kind kind = Kind::kStreamed) {
    sender.kind = kind;
    return reader_.Add(sender, kWireBytes, std::make_unique<PlannedMessage>(std::move(plan), &ends_));
  }
  // A pace at which nothing more is paid for within the test.
  static std::shared_ptr<Pace> InDebt() {
    const auto pace = std::make_shared<Pace>(/*bytes_per_second=*/1, /*burst=*/1, /*most_owed=*/4 * kWireBytes);
    pace->Take(1000, SteadyNow());
    return pace;
  }

  Ends ends_;
  // The first message of each test keeps the reader busy until this.
  absl::Notification begins_;
  LargeReader reader_;
};

TEST_F(LargeReaderTest, OwnersTakeTurnsAndSoDoTheSendersOfEach) {
  ASSERT_TRUE(Add({"0", "first", nullptr}, {"first", 1, &begins_}).ok());
  for (int number = 1; number <= 3; ++number)
    ASSERT_TRUE(Add({"a", "greedy", nullptr}, {absl::StrCat("a", number)}).ok());
  ASSERT_TRUE(Add({"a", "other", nullptr}, {"of another sender"}).ok());
  ASSERT_TRUE(Add({"b", "one", nullptr}, {"of another owner"}).ok());
  begins_.Notify();
  EXPECT_THAT(ends_.Await(6), ElementsAre("first", "a1", "of another owner", "of another sender", "a2", "a3"));
}

TEST_F(LargeReaderTest, TheSenderWhoseMessagesHaveCostLeastGoesFirst) {
  ASSERT_TRUE(Add({"0", "first", nullptr}, {"first", 1, &begins_}).ok());
  for (int number = 1; number <= 3; ++number)
    ASSERT_TRUE(Add({"a", "greedy", nullptr}, {absl::StrCat("greedy", number), 10}).ok());
  for (int number = 1; number <= 4; ++number)
    ASSERT_TRUE(Add({"a", "quiet", nullptr}, {absl::StrCat("quiet", number), 3}).ok());
  begins_.Notify();
  EXPECT_THAT(ends_.Await(8),
              ElementsAre("first", "greedy1", "quiet1", "quiet2", "quiet3", "quiet4", "greedy2", "greedy3"));
}

TEST_F(LargeReaderTest, ASenderThatComesLaterGoesFirstAndHasNotSavedUp) {
  ASSERT_TRUE(Add({"0", "first", nullptr}, {"first", 1, &begins_}).ok());
  absl::Notification goes_on;
  ASSERT_TRUE(Add({"a", "greedy", nullptr}, {"greedy1", 10}).ok());
  ASSERT_TRUE(Add({"a", "greedy", nullptr}, {"greedy2", 10}).ok());
  std::atomic<int> weighings = 0;
  ASSERT_TRUE(Add({"a", "greedy", nullptr}, {"greedy3", 10, &goes_on, nullptr, {}, nullptr, &weighings}).ok());
  ASSERT_TRUE(Add({"a", "greedy", nullptr}, {"greedy4", 10}).ok());
  begins_.Notify();
  while (weighings == 0) std::this_thread::yield();
  for (int number = 1; number <= 3; ++number)
    ASSERT_TRUE(Add({"a", "quiet", nullptr}, {absl::StrCat("quiet", number), 10}).ok());
  goes_on.Notify();
  EXPECT_THAT(ends_.Await(8),
              ElementsAre("first", "greedy1", "greedy2", "greedy3", "quiet1", "greedy4", "quiet2", "quiet3"));
}

TEST_F(LargeReaderTest, CallsHoldUpNoStreamedMessageOfTheSameSender) {
  ASSERT_TRUE(Add({"a", "one", InDebt()}, {"call", 2 * kLargeCallBytes}, Kind::kCall).ok());
  ASSERT_TRUE(Add({"a", "one", std::make_shared<Pace>(1, 1)}, {"hello", 2 * kLargeStreamedBytes}).ok());
  EXPECT_THAT(ends_.Await(1), ElementsAre("hello"));
}

TEST_F(LargeReaderTest, AMessageThatIsLargeOnTheWireIsNotWeighedBeforeItIsPaidFor) {
  std::atomic<int> weighings = 0, waits = 0;
  ASSERT_TRUE(Add({"a", "greedy", InDebt()}, {"call", 1, nullptr, nullptr, {}, &waits, &weighings}, Kind::kCall).ok());
  while (waits < 2) std::this_thread::yield();
  EXPECT_EQ(weighings, 0);
}

TEST_F(LargeReaderTest, AMessageThatWasWeighedIsPaidForThoughItsSenderGoesAway) {
  const std::shared_ptr<Pace> pace = InDebt();
  std::atomic<int> weighings = 0;
  std::atomic<bool> is_gone = false;
  ASSERT_TRUE(Add({"a", "greedy", pace},
                  {"gone", 2 * kLargeStreamedBytes, nullptr, &is_gone, absl::CancelledError(""), nullptr, &weighings})
                  .ok());
  while (weighings == 0) std::this_thread::yield();
  is_gone = true;
  EXPECT_THAT(ends_.Await(1), ElementsAre("gone CANCELLED"));
  EXPECT_GT(pace->Wait(SteadyNow()), absl::Seconds(kWireBytes));
  EXPECT_LT(pace->Wait(SteadyNow()), absl::Seconds(2 * kWireBytes));
}

TEST_F(LargeReaderTest, AMessageThatIsNotPaidForHoldsUpItsSenderAlone) {
  const std::shared_ptr<Pace> pace = InDebt();
  ASSERT_TRUE(Add({"a", "greedy", pace}, {"not paid for", 2 * kLargeStreamedBytes}).ok());
  ASSERT_TRUE(Add({"a", "greedy", pace}, {"behind it"}).ok());
  ASSERT_TRUE(Add({"a", "other", pace}, {"small in memory", kLargeStreamedBytes}).ok());
  ASSERT_TRUE(Add({"b", "other", nullptr}, {"of another owner", 2 * kLargeStreamedBytes}).ok());
  EXPECT_THAT(ends_.Await(2), UnorderedElementsAre("small in memory", "of another owner"));
  reader_.Stop();
  EXPECT_THAT(ends_.Await(4), UnorderedElementsAre("small in memory", "of another owner", "not paid for UNAVAILABLE",
                                                   "behind it UNAVAILABLE"));
}

TEST_F(LargeReaderTest, OfSendersThatWaitForPayEachGetsItsTurn) {
  // A message is paid for in 20 ms.
  const auto pace = std::make_shared<Pace>(100 * kLargeStreamedBytes, 1, 100 * kLargeStreamedBytes);
  ASSERT_TRUE(Add({"0", "first", nullptr}, {"first", 1, &begins_}).ok());
  for (int number = 1; number <= 2; ++number)
    ASSERT_TRUE(Add({"a", "greedy", pace}, {absl::StrCat("greedy", number), 2 * kLargeStreamedBytes}).ok());
  ASSERT_TRUE(Add({"a", "other", pace}, {"other", 2 * kLargeStreamedBytes}).ok());
  const absl::Time begun = SteadyNow();
  begins_.Notify();
  EXPECT_THAT(ends_.Await(4), ElementsAre("first", "greedy1", "other", "greedy2"));
  EXPECT_GE(SteadyNow() - begun, absl::Milliseconds(39));
}

TEST_F(LargeReaderTest, AMessageThatCannotBeReadIsPaidForToo) {
  const auto pace = std::make_shared<Pace>(/*bytes_per_second=*/1, /*burst=*/kWireBytes, /*most_owed=*/4 * kWireBytes);
  ASSERT_TRUE(Add({"a", "greedy", pace}, {"no message", absl::InvalidArgumentError("")}).ok());
  EXPECT_THAT(ends_.Await(1), ElementsAre("no message INVALID_ARGUMENT"));
  EXPECT_GT(pace->Wait(SteadyNow()), absl::Seconds(2 * kWireBytes));
}

TEST_F(LargeReaderTest, ASenderHasFewCallsThatWaitAndIsToldWhenToRetry) {
  ASSERT_TRUE(Add({"0", "first", nullptr}, {"first", 1, &begins_}).ok());
  for (size_t sender = 0; sender < LargeReader::kMostCallsOfOwner / LargeReader::kMostCallsOfSender; ++sender) {
    const LargeReader::Sender one{"a", absl::StrCat("sender", sender), nullptr};
    for (size_t call = 0; call < LargeReader::kMostCallsOfSender; ++call)
      ASSERT_TRUE(Add(one, {"call"}, Kind::kCall).ok());
    const absl::Status refused = Add(one, {"one too many"}, Kind::kCall);
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("at most 4 of a token, and 32 of a tenant, may"));
    EXPECT_TRUE(RetryDelayOf(refused).has_value());
  }
  EXPECT_TRUE(Add({"a", "another", nullptr}, {"of a sender of which none waits"}, Kind::kCall).ok());
  EXPECT_FALSE(Add({"a", "another", nullptr}, {"one too many"}, Kind::kCall).ok());
  EXPECT_TRUE(Add({"a", "sender0", nullptr}, {"streamed"}).ok());
  EXPECT_TRUE(Add({"b", "sender0", nullptr}, {"of another owner"}, Kind::kCall).ok());
  begins_.Notify();
  EXPECT_EQ(ends_.Await(LargeReader::kMostCallsOfOwner + 4).size(), LargeReader::kMostCallsOfOwner + 4);
}

TEST_F(LargeReaderTest, AMessageWhoseSenderHasGoneIsForgotten) {
  std::atomic<bool> is_gone = false;
  ASSERT_TRUE(Add({"a", "greedy", InDebt()}, {"gone", 2 * kLargeStreamedBytes, nullptr, &is_gone}).ok());
  is_gone = true;
  EXPECT_THAT(ends_.Await(1), ElementsAre("gone CANCELLED"));
}

TEST_F(LargeReaderTest, AMessageOfATokenThatHasEndedIsRefused) {
  std::atomic<bool> is_gone = true;
  ASSERT_TRUE(Add({"a", "greedy", InDebt()},
                  {"revoked", 2 * kLargeStreamedBytes, nullptr, &is_gone, absl::UnauthenticatedError("")})
                  .ok());
  EXPECT_THAT(ends_.Await(1), ElementsAre("revoked UNAUTHENTICATED"));
}

TEST_F(LargeReaderTest, WhenItHasStoppedMessagesAreRefused) {
  reader_.Stop();
  EXPECT_TRUE(Add({"a", "one", nullptr}, {"late"}).ok());
  EXPECT_THAT(ends_.Await(1), ElementsAre("late UNAVAILABLE"));
}

}  // namespace
}  // namespace farandole
