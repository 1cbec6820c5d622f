#include "server/job/names/stall_watch.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr uint64_t kEpoch = 7;
constexpr absl::Duration kWarning = absl::Seconds(60);
constexpr absl::Duration kLimit = absl::Seconds(300);

// Three ranks on host a, of worker processes 100 to 102.
v1::Epoch ThreeRanks() {
  v1::Epoch epoch;
  epoch.set_number(kEpoch);
  for (int rank = 0; rank < 3; ++rank) {
    v1::Member* const member = epoch.add_members();
    member->set_incarnation(absl::StrCat("w", rank));
    member->set_hostname("a");
    member->set_pid(100 + rank);
  }
  return epoch;
}

class StallWatchTest : public ::testing::Test {
 protected:
  StallWatchTest() {
    for (uint32_t rank = 0; rank < 3; ++rank) roster_.Attach(rank, rank + 1, now_);
  }

  // The rank waits for `name` since `age`; "": for nothing, and has submitted "loss" at that time.
  static v1::StallReport ReportOf(const std::string& name, absl::Duration age) {
    v1::StallReport report;
    report.set_epoch(kEpoch);
    if (name.empty()) {
      report.set_last_submitted("loss");
      report.set_last_submitted_age_ms(absl::ToInt64Milliseconds(age));
      return report;
    }
    v1::PendingTensor* const pending = report.add_pending();
    pending->set_name(name);
    pending->set_age_ms(absl::ToInt64Milliseconds(age));
    return report;
  }

  // Rank 0 reports by itself that it waits for `name`.
  void Complain(const std::string& name, absl::Duration age) { watch_.Report(0, ReportOf(name, age), now_); }

  // All ranks answer the inquiry that Advance has sent, rank 0 with `first` and so on; the sentence that follows.
  std::string Ask(const std::vector<v1::StallReport>& answers) {
    Notices notices;
    EXPECT_EQ(watch_.Advance(now_, &notices), "");
    EXPECT_THAT(notices, SizeIs(1));
    if (notices.size() != 1 || !notices[0].message.has_stall_inquiry()) return "no inquiry";
    EXPECT_THAT(notices[0].ranks, ElementsAre(0, 1, 2));
    for (uint32_t rank = 0; rank < answers.size(); ++rank) {
      v1::StallReport answer = answers[rank];
      answer.set_inquiry(notices[0].message.stall_inquiry().inquiry());
      watch_.Report(rank, answer, now_);
    }
    return watch_.Advance(now_, &told_);
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  Roster roster_{ThreeRanks(), absl::Seconds(3)};
  GroupTable groups_{kEpoch, 3, 16, 1, nullptr};
  Negotiation negotiation_{kEpoch, 64, 1, groups_, nullptr};
  StallWatch watch_{kEpoch, kWarning, kLimit, groups_, negotiation_, roster_, nullptr};
  // The notices with sentences.
  Notices told_;
};

TEST_F(StallWatchTest, NobodyIsAskedBeforeTheWarningTime) {
  Complain("grad", absl::Seconds(20));
  EXPECT_EQ(watch_.Deadline(), now_ + absl::Seconds(40));
  now_ += absl::Seconds(39);
  Notices notices;
  EXPECT_EQ(watch_.Advance(now_, &notices), "");
  EXPECT_THAT(notices, SizeIs(0));
}

TEST_F(StallWatchTest, TheSentenceNamesTheMissingRankAndItsLastSubmission) {
  Complain("grad", kWarning);
  const std::string sentence = Ask({ReportOf("grad", kWarning), ReportOf("grad", kWarning), ReportOf("", kWarning)});
  EXPECT_THAT(sentence, HasSubstr("tensor grad (allreduce, group 0): ranks 0,1 have waited 60 s; missing is rank 2 "
                                  "(last submitted loss 60 s ago)"));
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_EQ(told_[0].message.stall_notice().sentence(), sentence);
  EXPECT_THAT(told_[0].ranks, ElementsAre(0, 1, 2));
  EXPECT_THAT(watch_.Missing().Ranks(), ElementsAre(2));
}

TEST_F(StallWatchTest, ARankThatDoesNotAnswerIsNamedAfterASecond) {
  Complain("grad", kWarning);
  EXPECT_EQ(Ask({ReportOf("grad", kWarning), ReportOf("grad", kWarning)}), "");
  EXPECT_EQ(watch_.Deadline(), now_ + StallWatch::kAnswerTime);
  now_ += StallWatch::kAnswerTime;
  EXPECT_THAT(watch_.Advance(now_, &told_), HasSubstr("missing is rank 2 (did not answer)"));
}

TEST_F(StallWatchTest, RanksThatWaitForEachOtherComeFirst) {
  Complain("a", kWarning);
  EXPECT_THAT(Ask({ReportOf("a", kWarning), ReportOf("b", kWarning), ReportOf("b", kWarning)}),
              ::testing::StartsWith("ranks wait for each other: rank 0 in a for rank 1, rank 1 in b for rank 0"));
}

TEST_F(StallWatchTest, TheSameStallIsToldAgainAfterOneWarningTimeAndThenAfterTwo) {
  absl::Duration age = kWarning;
  const auto ask = [&] { return Ask({ReportOf("grad", age), ReportOf("grad", age), ReportOf("", age)}); };
  Complain("grad", age);
  EXPECT_NE(ask(), "");
  std::vector<absl::Duration> told;
  const absl::Time first = now_;
  while (told.size() < 2) {
    const absl::Duration step = watch_.Deadline() - now_;
    ASSERT_LE(step, kWarning);
    now_ += step;
    age += step;
    if (!ask().empty()) told.push_back(now_ - first);
  }
  EXPECT_THAT(told, ElementsAre(kWarning, 3 * kWarning));
}

TEST_F(StallWatchTest, BeyondTheLimitTheRankThatKeepsTheOthersWaitingIsLost) {
  const absl::Duration age = kLimit - absl::Seconds(1);
  Complain("grad", age);
  Ask({ReportOf("grad", age), ReportOf("grad", age), ReportOf("", age)});
  EXPECT_THAT(watch_.overdue(), SizeIs(0));
  now_ += absl::Seconds(1);
  ASSERT_LE(watch_.Deadline(), now_);
  Ask({ReportOf("grad", kLimit), ReportOf("grad", kLimit), ReportOf("", kLimit)});
  ASSERT_THAT(watch_.overdue(), SizeIs(1));
  EXPECT_EQ(watch_.overdue()[0].rank, 2);
  EXPECT_EQ(watch_.overdue()[0].claim,
            "it has not submitted grad, for which ranks 0,1 have waited 300 s; 300 s is the most (its stall limit)");
}

TEST_F(StallWatchTest, TheTimeInWhichTheCoordinatorStoodCountsForNoLimit) {
  watch_.Excuse(now_);
  Complain("grad", kLimit);
  Ask({ReportOf("grad", kLimit), ReportOf("grad", kLimit), ReportOf("", kLimit)});
  EXPECT_THAT(watch_.overdue(), SizeIs(0));
}

}  // namespace
}  // namespace farandole
