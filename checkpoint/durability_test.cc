// Which files survive a loss of power, by the calls that were made: a file system keeps a file's bytes when the file is
// synced, and a name when the directory that has it is synced afterwards. Nothing else is relied upon.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "checkpoint/durable_file.h"
#include "checkpoint/testing/file_calls.h"
#include "checkpoint/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Files that got another name before their bytes were synced.
std::vector<std::string> RenamedUnsynced(const std::vector<FileCall>& calls) {
  std::vector<std::string> unsynced;
  for (auto call = calls.begin(); call != calls.end(); ++call) {
    if (call->call != "rename") continue;
    const auto is_synced = [&](const FileCall& one) { return one.call == "sync" && one.path == call->from; };
    if (std::none_of(calls.begin(), call, is_synced)) unsynced.push_back(call->path);
  }
  return unsynced;
}

class DurabilityTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string made = testing::TempDir() + "/durability.XXXXXX";
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    directory_ = std::filesystem::canonical(made).string();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
};

TEST_F(DurabilityTest, EveryLevelOfANewDirectoryIsSynced) {
  NoteFileCalls();
  ASSERT_TRUE(MakeDirectories(directory_ + "/a/b/c").ok());
  const std::vector<FileCall> calls = NotedFileCalls();
  std::vector<std::string> texts;
  for (const FileCall& call : calls) texts.push_back(call.call + " " + call.path.substr(directory_.size()));
  EXPECT_THAT(texts, ElementsAre("mkdir /a", "sync ", "mkdir /a/b", "sync /a", "mkdir /a/b/c", "sync /a/b"));
  EXPECT_THAT(NamesAtRisk(calls), IsEmpty());
  NoteFileCalls();
  ASSERT_TRUE(MakeDirectories(directory_ + "/a/b/c").ok());
  EXPECT_THAT(NotedFileCalls(), IsEmpty()) << "it is there";
}

TEST_F(DurabilityTest, RelativeAndOddPathsAreSyncedAlike) {
  ASSERT_EQ(chdir(directory_.c_str()), 0);
  for (const char* path : {"x", "y/z", "./v//w/", "u/"}) {
    NoteFileCalls();
    ASSERT_TRUE(MakeDirectories(path).ok()) << path;
    std::vector<FileCall> calls = NotedFileCalls();
    for (FileCall& call : calls) {
      call.path = std::filesystem::path(call.path).lexically_normal().string();
      if (call.path.back() == '/') call.path.pop_back();
    }
    EXPECT_THAT(NamesAtRisk(calls), IsEmpty()) << path;
    EXPECT_TRUE(std::filesystem::is_directory(path));
  }
}

TEST_F(DurabilityTest, AFinishedCheckpointSurvivesALossOfPowerWithItsManifestAndItsDirectories) {
  NoteFileCalls();
  absl::StatusOr<CheckpointWriter> writer =
      CheckpointWriter::Open(directory_ + "/runs/7", "model", 100, 1, "pt", "00c0ffee00c0ffee");
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::ofstream(writer->temporary_path()) << "weights";
  ASSERT_TRUE(writer->Finish("mnist", 1).ok());
  const std::vector<FileCall> calls = NotedFileCalls();
  EXPECT_THAT(NamesAtRisk(calls), IsEmpty());
  EXPECT_THAT(RenamedUnsynced(calls), IsEmpty());
  const auto is_there = [&](const std::string& path) {
    return std::any_of(calls.begin(), calls.end(),
                       [&](const FileCall& call) { return call.call == "rename" && call.path == path; });
  };
  EXPECT_TRUE(is_there(writer->final_path()));
  EXPECT_TRUE(is_there(writer->final_path() + ".json"));
}

}  // namespace
}  // namespace farandole
