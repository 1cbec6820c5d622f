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

TEST(FilePlacesTest, RolesOfTheClusterHavePlacesOfTheirOwn) {
  FilePlaces places(1, "timelines and archives");
  const std::optional<HttpAnswer> viewers = places.Take({HttpAccess::kTenant, "default"}, [](const HttpReply&) {});
  ASSERT_TRUE(viewers.has_value());
  std::optional<HttpReply> reply;
  const auto keep = [&reply](HttpReply made) { reply = std::move(made); };
  const std::optional<HttpAnswer> roots = places.Take({HttpAccess::kAdmin, "default"}, keep);
  ASSERT_TRUE(roots.has_value());
  EXPECT_FALSE(places.Take({HttpAccess::kAllTenants, "default"}, keep).has_value());
  ASSERT_TRUE(reply.has_value());
  EXPECT_THAT(reply->body, HasSubstr("callers that see all tenants have 1 of their timelines and archives under way"));
  // Nor are its replies written in the turn of the tenant.
  (*roots)(HttpReply());
  EXPECT_EQ(reply->turn_of, kClusterOwner);
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

TEST(FilePlacesTest, RepliesCountByTheirBytesUntilTheyAreGone) {
  FilePlaces places(1000, "bytes of pages");
  const auto fit = [&places](const std::string& tenant, size_t bytes) {
    HttpReply reply;
    reply.body = std::string(bytes, 'x');
    return places.Fit({HttpAccess::kTenant, tenant}, std::move(reply));
  };
  std::optional<HttpReply> first = fit("team", 600);
  EXPECT_EQ(first->status, 200u);
  EXPECT_EQ(first->body.size(), 600u);
  const HttpReply second = fit("team", 400);
  EXPECT_EQ(second.status, 200u);
  const HttpReply refused = fit("team", 1);
  EXPECT_EQ(refused.status, 429u);
  EXPECT_THAT(refused.body, HasSubstr("tenant team has 1000 of its bytes of pages under way"));
  EXPECT_EQ(refused.held, nullptr) << "a refusal takes no place";
  EXPECT_EQ(fit("other", 1).status, 200u);
  // It goes with the last of its copies.
  std::optional<HttpReply> copy = first;
  first.reset();
  EXPECT_EQ(fit("team", 500).status, 429u);
  copy.reset();
  EXPECT_EQ(fit("team", 500).status, 200u);
  // One that is longer than all places fits where nothing else is under way, and only there.
  EXPECT_EQ(fit("team", 601).status, 429u);
  EXPECT_EQ(fit("quiet", 5000).status, 200u);
  EXPECT_EQ(fit("team", 0).status, 200u);
}

}  // namespace
}  // namespace farandole
