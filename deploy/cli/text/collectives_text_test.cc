#include "deploy/cli/text/collectives_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::SurveyCollectivesResponse Answer() {
  v1::SurveyCollectivesResponse answer;
  answer.set_epoch(1);
  answer.set_size(4);
  answer.set_answered(3);
  answer.set_asked_unix_ms(1'700'000'000'000);
  answer.set_found(2);
  answer.set_waited_us(9'000'000);
  answer.set_moving_us(1'500);
  v1::CollectiveCost* const late = answer.add_costs();
  late->set_name("late\x1b[2J");
  late->set_count(64);
  late->set_bytes(4);
  late->set_waited_us(8'000'000);
  late->set_wait_percent(89);
  late->set_mean_wait_us(31'250);
  late->set_longest_wait_us(2'000'000);
  late->set_compared(64);
  late->add_last()->set_rank(2);
  late->mutable_last(0)->set_times(61);
  v1::CollectiveCost* const large = answer.add_costs();
  large->set_name("large");
  large->set_group(7);
  large->set_op(v1::OP_TYPE_BROADCAST);
  large->set_bytes(4 << 20);
  large->set_mean_moving_us(500);
  large->set_bus_bytes_per_second(8e9);
  answer.add_silent()->set_rank(3);
  answer.mutable_silent(0)->set_silence("it is stopped");
  return answer;
}

TEST(CollectivesTextTest, ARowSaysWhatATensorCostsAndWhoCameLast) {
  const std::string text = ShowCollectives(Answer(), CollectiveOrder::kCost);
  EXPECT_THAT(text, HasSubstr("epoch 1, 3 of 4 ranks have answered, 2023-11-14 22:13:20 UTC\n"));
  EXPECT_THAT(text, HasSubstr("2 names; all ranks together waited 9.0 s for others, and 1.5 ms for data\n"));
  EXPECT_THAT(text, HasSubstr("rank 2, 61 of 64"));
  EXPECT_THAT(text, HasSubstr("89 %  31.2 ms"));
  EXPECT_THAT(text, HasSubstr("broadcast  large (process set 7)"));
  EXPECT_THAT(text, HasSubstr("rank 3: it is stopped\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_LT(text.find("late"), text.find("large"));
}

TEST(CollectivesTextTest, TheReaderChoosesTheOrder) {
  const std::string text = ShowCollectives(Answer(), CollectiveOrder::kBandwidth);
  EXPECT_LT(text.find("large"), text.find("late?"));
}

TEST(CollectivesTextTest, OfAnEpochThatIsOverItSaysFromWhen) {
  v1::SurveyCollectivesResponse answer = Answer();
  answer.set_is_over(true);
  EXPECT_THAT(ShowCollectives(answer, CollectiveOrder::kCost), HasSubstr("answered, last 2023"));
  answer.set_asked_unix_ms(0);
  EXPECT_THAT(ShowCollectives(answer, CollectiveOrder::kCost), HasSubstr("as their launchers read it when they ended"));
}

}  // namespace
}  // namespace farandole
