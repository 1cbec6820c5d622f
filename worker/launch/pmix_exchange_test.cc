#include "worker/launch/pmix_exchange.h"

#include <string>

#include "gtest/gtest.h"

namespace farandole {
namespace {

ForeignLaunch LaunchOf(const std::string& version) {
  ForeignLaunch launch;
  launch.launcher = "mpirun";
  launch.size = 2;
  launch.pmix_namespace = "4711";
  launch.pmix_version = version;
  return launch;
}

// tests/integration tests a real server, with a real mpirun.
TEST(PmixExchangeTest, AServerOfAnotherVersionIsNotJoined) {
  const absl::Status status = PmixExchange::Open(LaunchOf("99.1.0")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  const std::string text(status.message());
  EXPECT_TRUE(text.find("libpmix.so.2 is of PMIx ") == 0 && text.find(", but mpirun serves PMIx 99.1.0") > 0) << text;
}

TEST(PmixExchangeTest, AnOldServerThatDoesNotSayItsVersionIsNotJoined) {
  const absl::Status status = PmixExchange::Open(LaunchOf("")).status();
  EXPECT_NE(std::string(status.message()).find("but mpirun serves PMIx of an unknown version"), std::string::npos)
      << status;
}

}  // namespace
}  // namespace farandole
