#include "worker/member/group_requests.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

v1::GroupAssigned Refusal(const std::string& sentence) {
  v1::GroupAssigned answer;
  answer.set_error(sentence);
  return answer;
}

TEST(GroupRequestsTest, AnswersComeInTheOrderOfRequests) {
  GroupRequests requests;
  const auto first = requests.Ask(3, {0, 2}, 0).first;
  const auto second = requests.Ask(3, {}, 7).first;
  EXPECT_EQ(first->request.epoch(), 3u);
  EXPECT_EQ(first->request.ranks_size(), 2);
  EXPECT_EQ(first->request.ordinal(), 1u);
  EXPECT_EQ(second->request.ordinal(), 2u);
  EXPECT_EQ(second->request.remove_group(), 7u);
  v1::GroupAssigned answer;
  answer.mutable_group()->set_number(9);
  EXPECT_TRUE(requests.Answer(answer));
  EXPECT_TRUE(first->answered);
  EXPECT_EQ(first->answer.group().number(), 9u);
  EXPECT_FALSE(second->answered);
  ASSERT_EQ(requests.pending().size(), 1u);
  EXPECT_EQ(requests.pending().front(), second);
}

TEST(GroupRequestsTest, ACallThatAsksAgainGoesOnWithTheRequestThatWasAbandoned) {
  GroupRequests requests;
  auto first = requests.Ask(3, {0, 2}, 0);
  auto second = requests.Ask(3, {}, 7);
  EXPECT_TRUE(first.second);
  EXPECT_TRUE(requests.Ask(3, {0, 2}, 0).second) << "another thread waits for the first";
  const GroupRequests::Request* const was_first = first.first.get();
  const GroupRequests::Request* const was_second = second.first.get();
  first.first.reset();
  second.first.reset();
  for (const auto& other :
       {requests.Ask(4, {0, 2}, 0), requests.Ask(3, {0, 1}, 0), requests.Ask(3, {0}, 0), requests.Ask(3, {}, 8)})
    EXPECT_TRUE(other.second) << "other content";
  const auto adopted = requests.Ask(3, {}, 7);
  EXPECT_EQ(adopted.first.get(), was_second);
  EXPECT_FALSE(adopted.second);
  EXPECT_TRUE(requests.Ask(3, {}, 7).second) << "that one has a call again";
  v1::GroupAssigned answer;
  answer.mutable_group()->set_number(9);
  EXPECT_TRUE(requests.Answer(answer));
  const auto late = requests.Ask(3, {0, 2}, 0);
  ASSERT_EQ(late.first.get(), was_first) << "the answer came between the calls";
  EXPECT_EQ(late.first->answer.group().number(), 9u);
}

TEST(GroupRequestsTest, AnAnswerWithoutARequestIsNone) {
  GroupRequests requests;
  EXPECT_FALSE(requests.Answer(Refusal("nobody has asked")));
  EXPECT_TRUE(requests.refused().empty());
}

TEST(GroupRequestsTest, KeepsTheLastRefusals) {
  GroupRequests requests;
  for (size_t i = 0; i <= GroupRequests::kMostRefused; ++i) {
    const auto own = requests.Ask(1, {0}, 0);
    EXPECT_TRUE(requests.Answer(Refusal(absl::StrCat("refusal ", i))));
  }
  EXPECT_EQ(requests.refused().size(), GroupRequests::kMostRefused);
  EXPECT_EQ(requests.refused().front().error(), "refusal 1");
  const auto own = requests.Ask(1, {0}, 0);
  requests.Answer(v1::GroupAssigned());
  EXPECT_EQ(requests.refused().front().error(), "refusal 1");
}

}  // namespace
}  // namespace farandole
