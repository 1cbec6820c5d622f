#include "base/foreign_entry.h"

#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

// A directory of its own for each test.
class ForeignEntryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Other users reach what is in /tmp.
    directory_ = "/tmp/entries.XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string PathOf(const std::string& name) const { return absl::StrCat(directory_, "/", name); }
  // Makes a link to `target`, which has a text that must not go.
  std::string LinkTo(const std::string& target) {
    std::ofstream(target) << "kept";
    const std::string link = PathOf("link");
    EXPECT_EQ(symlink(target.c_str(), link.c_str()), 0);
    return link;
  }
  static void ExpectOpens(const std::string& path) {
    const absl::StatusOr<int> fd = OpenToWrite(path);
    ASSERT_TRUE(fd.ok()) << fd.status();
    close(*fd);
  }

  std::string directory_;
};

TEST_F(ForeignEntryTest, FilesAndAUsersOwnLinksAreOpenedAndEmptied) {
  ExpectOpens(PathOf("new"));
  ExpectOpens(PathOf("new"));
  const std::string target = PathOf("target");
  ExpectOpens(LinkTo(target));
  struct stat found = {};
  ASSERT_EQ(stat(target.c_str(), &found), 0);
  EXPECT_EQ(found.st_size, 0);
  EXPECT_EQ(OpenToWrite(PathOf("no/file")).status(), absl::FailedPreconditionError("No such file or directory"));
}

TEST_F(ForeignEntryTest, DevicesAndTheLinksToThemAreOpened) {
  for (const char* path : {"/dev/null", "/dev/stderr"}) {
    EXPECT_TRUE(CheckOwner(path).ok()) << path;
    ExpectOpens(path);
  }
}

TEST_F(ForeignEntryTest, WhatAFileServerGivesAnotherOwnerIsThisUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can act as another user on files alone";
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  // Files that are made now belong to that user, as with a server that takes root for nobody.
  setfsuid(kNobody);
  const std::string link = LinkTo(PathOf("target"));
  const absl::Status status = CheckOwner(link);
  ExpectOpens(link);
  setfsuid(0);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_FALSE(CheckOwner(link).ok()) << "it is another user's for whoever makes files of his own";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 2) << "the probe is gone";
}

TEST_F(ForeignEntryTest, ALinkOfAnotherUserIsNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a link away";
  const std::string target = PathOf("target"), link = LinkTo(target);
  ASSERT_EQ(lchown(link.c_str(), kNobody, kNobody), 0);
  const absl::Status refused = OpenToWrite(link).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(refused.message(), HasSubstr("it belongs to user 65534, who is neither this user (0) nor root"));
  std::string text;
  std::ifstream(target) >> text;
  EXPECT_EQ(text, "kept");
}

}  // namespace
}  // namespace farandole
