// Two files that include the same headers are one program: nothing in them is defined twice.
#include "farandole/farandole.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(HeadersTest, AStatusIsOfTheSdkBesideOtherTypesOfThisName) {
  const ::farandole::sdk::Status status(StatusCode::kNotFound, "nothing");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.message(), "nothing");
  EXPECT_TRUE(Status().message().empty());
}

}  // namespace
}  // namespace farandole
