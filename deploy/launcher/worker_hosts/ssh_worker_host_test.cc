#include "deploy/launcher/worker_hosts/ssh_worker_host.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::ElementsAre;

TEST(SshArgumentsTest, TheCommandLineEndsWithTheHostAndOneFixedCommand) {
  SshOptions options;
  const std::vector<std::string> arguments = SshArguments(options, "me@node-3", "/opt/farandole");
  ASSERT_GE(arguments.size(), 3u);
  EXPECT_THAT(std::vector<std::string>(arguments.end() - 3, arguments.end()),
              ElementsAre("--", "me@node-3", "exec /opt/farandole host-agent"));
  EXPECT_EQ(std::count(arguments.begin(), arguments.end(), "BatchMode=yes"), 1) << "nobody answers questions";
  EXPECT_EQ(std::count(arguments.begin(), arguments.end(), "-p"), 0) << "the configuration's port counts";
}

TEST(SshArgumentsTest, PortIdentityAndConfigurationAreTheUsers) {
  SshOptions options;
  options.port = 2222;
  options.identity_file = "/home/me/my key";
  options.config_file = "/etc/cluster";
  options.connect_limit = absl::Milliseconds(300);
  const std::vector<std::string> arguments = SshArguments(options, "a", "farandole");
  const auto after = [&](const std::string& word) {
    const auto found = std::find(arguments.begin(), arguments.end(), word);
    return found == arguments.end() ? "" : *(found + 1);
  };
  EXPECT_EQ(after("-p"), "2222");
  EXPECT_EQ(after("-i"), "/home/me/my key");
  EXPECT_EQ(after("-F"), "/etc/cluster");
  EXPECT_EQ(std::count(arguments.begin(), arguments.end(), "ConnectTimeout=1"), 1) << "0 would be no limit";
}

TEST(SshArgumentsTest, OnlyPathsThatNoShellInterpretsArePlain) {
  for (const char* path : {"farandole", "/opt/my-tools_1.2/bin/farandole", "./f+x"}) EXPECT_TRUE(IsPlainPath(path));
  for (const char* path : {"", "-rf", "/opt/my tools/f", "/a;b", "/a$b", "~/f", "/a\nb", "/a'b", "/a`b`", "/a*"}) {
    EXPECT_FALSE(IsPlainPath(path)) << path;
  }
}

}  // namespace
}  // namespace farandole::launcher
