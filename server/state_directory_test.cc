// A coordinator's state directory belongs to its own user, and its files are for that user only.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

class StateDirectoryTest : public CoordinatorFixture {
 protected:
  ~StateDirectoryTest() override { umask(umask_); }

  absl::Status Refusal() { return Coordinator::Start(options_).status(); }

  // Makes the directory before the coordinator does.
  void Make(mode_t mode) {
    ASSERT_EQ(mkdir(options_.state_dir.c_str(), 0700), 0);
    ASSERT_EQ(chmod(options_.state_dir.c_str(), mode), 0);
  }

  void ExpectAllPrivate() {
    struct stat facts = {};
    ASSERT_EQ(stat(options_.state_dir.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, 0700u);
    size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options_.state_dir)) {
      ASSERT_EQ(stat(entry.path().c_str(), &facts), 0);
      EXPECT_EQ(facts.st_mode & 07777, entry.is_directory() ? 0700u : 0600u) << entry.path();
      ++files;
    }
    // Database, token, key, audit and address.
    EXPECT_GT(files, 8u);
  }

  const mode_t umask_ = umask(022);
};

TEST_F(StateDirectoryTest, AllThatIsMadeIsForTheOwnerOnlyWhateverTheUmask) {
  for (const mode_t mask : {0000, 0022, 0277}) {
    options_.state_dir += "x";
    umask(mask);
    for (int start = 0; start < 2; ++start) {
      Start();
      Leave(Train(absl::StrCat("train", start), 1));
      ExpectAllPrivate();
      coordinator_.reset();
    }
  }
}

TEST_F(StateDirectoryTest, ADirectoryThatOthersMayEnterIsRefusedWithTheCommandThatMendsIt) {
  for (const mode_t mode : {0755, 0750, 0701, 0770, 01777}) {
    options_.state_dir += "x";
    Make(mode);
    const absl::Status refused = Refusal();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat("state directory ", options_.state_dir, " is owned by ")));
    EXPECT_THAT(refused.message(), HasSubstr(absl::StrFormat("(%d) with mode %04o", geteuid(), mode)));
    const std::string command = absl::StrCat("chmod 0700 '", options_.state_dir, "'");
    EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat("mend it with `", command, "`")));
    EXPECT_TRUE(std::filesystem::is_empty(options_.state_dir)) << "nothing is written there";
    ASSERT_EQ(system(command.c_str()), 0);
    Start();
    coordinator_.reset();
  }
}

TEST_F(StateDirectoryTest, TheBitThatADirectoryInheritsIsNoReason) {
  Make(02700);
  Start();
}

TEST_F(StateDirectoryTest, AnotherUsersDirectoryIsRefusedWithTheCommandThatMendsIt) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  options_.state_dir += " it's";
  Make(0700);
  ASSERT_EQ(chown(options_.state_dir.c_str(), 65534, 65534), 0);
  const absl::Status refused = Refusal();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("(65534) with mode 0700, and this coordinator runs as root (0)"));
  const std::string message(refused.message());
  const size_t begin = message.find('`') + 1;
  const std::string command = message.substr(begin, message.rfind('`') - begin);
  EXPECT_THAT(command, HasSubstr("chown -R 0 "));
  ASSERT_EQ(system(command.c_str()), 0) << command;
  Start();
}

}  // namespace
}  // namespace farandole
