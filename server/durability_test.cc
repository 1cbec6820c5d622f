// A coordinator's first start, by what it asks of the file system: a loss of power does not take its state away.
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/testing/file_calls.h"
#include "gtest/gtest.h"
#include "server/coordinator.h"

namespace farandole {
namespace {

TEST(DurabilityTest, ANewStateDirectoryItsStoreAndItsTokenSurviveALossOfPower) {
  std::string made = testing::TempDir() + "/durability.XXXXXX";
  ASSERT_NE(mkdtemp(made.data()), nullptr);
  const std::string scratch = std::filesystem::canonical(made).string();
  CoordinatorOptions options;
  options.state_dir = scratch + "/a/b/state";
  NoteFileCalls();
  const absl::StatusOr<std::unique_ptr<Coordinator>> coordinator = Coordinator::Start(options);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  const std::vector<FileCall> calls = NotedFileCalls();
  const std::vector<std::string> at_risk = NamesAtRisk(calls);
  for (const char* name : {"/a", "/a/b", "/a/b/state", "/a/b/state/store", "/a/b/state/token"}) {
    const std::string path = scratch + name;
    const auto is_it = [&](const FileCall& call) { return call.path == path && call.call != "sync"; };
    EXPECT_TRUE(std::any_of(calls.begin(), calls.end(), is_it)) << path << " was there before";
    EXPECT_EQ(std::count(at_risk.begin(), at_risk.end(), path), 0) << path;
  }
  std::filesystem::remove_all(scratch);
}

}  // namespace
}  // namespace farandole
