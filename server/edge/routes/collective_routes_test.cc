#include "server/edge/routes/collective_routes.h"

#include <memory>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

TEST(CollectivesReplyTest, RepliesThatAreNotReadCountAmongTheBytesOfPages) {
  const auto bytes = std::make_shared<FilePlaces>(1000, "bytes of pages");
  const auto write = [&bytes] {
    v1::SurveyCollectivesResponse found;
    found.add_costs()->set_name(std::string(600, 'g'));
    HttpReply reply = CollectivesReply(found, {HttpAccess::kTenant, "team"}, bytes);
    EXPECT_EQ(reply.turn_of, "team");
    reply.complete(&reply);
    return reply;
  };
  std::optional<HttpReply> first = write();
  EXPECT_EQ(first->status, 200u);
  EXPECT_THAT(first->body, HasSubstr(std::string(600, 'g')));
  EXPECT_EQ(write().status, 429u);
  first.reset();
  EXPECT_EQ(write().status, 200u);
}

}  // namespace
}  // namespace farandole
