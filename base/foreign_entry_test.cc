#include "base/foreign_entry.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
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
    directory_ = absl::StrCat(testing::TempDir(), "/entries.XXXXXX");
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
  }
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

TEST_F(ForeignEntryTest, ALinkOfAnotherUserIsNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a link away";
  const std::string target = PathOf("target"), link = LinkTo(target);
  ASSERT_EQ(lchown(link.c_str(), kNobody, kNobody), 0);
  const absl::Status refused = OpenToWrite(link).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(refused.message(), HasSubstr("user 65534 has put it there, who is neither this user (0) nor root"));
  std::string text;
  std::ifstream(target) >> text;
  EXPECT_EQ(text, "kept");
}

}  // namespace
}  // namespace farandole
