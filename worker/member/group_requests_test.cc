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
  const auto first = requests.Add(3, {0, 2}, 0);
  const auto second = requests.Add(3, {}, 7);
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

TEST(GroupRequestsTest, AnAnswerWithoutARequestIsNone) {
  GroupRequests requests;
  EXPECT_FALSE(requests.Answer(Refusal("nobody has asked")));
  EXPECT_TRUE(requests.refused().empty());
}

TEST(GroupRequestsTest, KeepsTheLastRefusals) {
  GroupRequests requests;
  for (size_t i = 0; i <= GroupRequests::kMostRefused; ++i) {
    requests.Add(1, {0}, 0);
    EXPECT_TRUE(requests.Answer(Refusal(absl::StrCat("refusal ", i))));
  }
  EXPECT_EQ(requests.refused().size(), GroupRequests::kMostRefused);
  EXPECT_EQ(requests.refused().front().error(), "refusal 1");
  requests.Add(1, {0}, 0);
  requests.Answer(v1::GroupAssigned());
  EXPECT_EQ(requests.refused().front().error(), "refusal 1");
}

}  // namespace
}  // namespace farandole
