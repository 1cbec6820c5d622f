#include "server/edge/routes/file_places.h"

#include <optional>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

TEST(FilePlacesTest, ATenantHasOneFileAtATimeUntilItsReplyIsGone) {
  FilePlaces places(1, "timelines and archives");
  std::optional<HttpReply> first, second, third;
  const std::optional<HttpAnswer> answer =
      places.Take({HttpAccess::kTenant, "team"}, [&first](HttpReply reply) { first = std::move(reply); });
  ASSERT_TRUE(answer.has_value());
  const auto take_second = [&] {
    return places.Take({HttpAccess::kTenant, "team"}, [&second](HttpReply reply) { second = std::move(reply); });
  };
  EXPECT_FALSE(take_second().has_value());
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->status, 429u);
  EXPECT_THAT(second->body, HasSubstr("tenant team has 1 of its timelines and archives under way"));
  ASSERT_EQ(second->headers.size(), 1u);
  EXPECT_EQ(second->headers[0].first, "Retry-After");
  // Another tenant has its own place.
  EXPECT_TRUE(places.Take({HttpAccess::kTenant, "other"}, [&third](HttpReply reply) { third = std::move(reply); }));
  // A copy of the answer, as a table of calls has it, holds nothing once another one was called.
  (*answer)(HttpError(404, "there is no job"));
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->status, 404u);
  EXPECT_FALSE(take_second().has_value());
  first.reset();
  EXPECT_TRUE(take_second().has_value());
}

TEST(FilePlacesTest, AnAnswerThatIsNeverGivenHoldsNoPlace) {
  FilePlaces places(1, "timelines and archives");
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(places.Take({HttpAccess::kTenant, "team"}, [](const HttpReply&) {})) << i;
}

TEST(FilePlacesTest, SeveralAtATimeWhereSoManyMayBe) {
  FilePlaces places(3, "lists");
  std::vector<std::optional<HttpAnswer>> answers;
  for (int i = 0; i < 4; ++i) answers.push_back(places.Take({HttpAccess::kTenant, "team"}, [](const HttpReply&) {}));
  EXPECT_TRUE(answers[2].has_value());
  EXPECT_FALSE(answers[3].has_value());
  answers[0].reset();
  EXPECT_TRUE(places.Take({HttpAccess::kTenant, "team"}, [](const HttpReply&) {}).has_value());
}

}  // namespace
}  // namespace farandole
