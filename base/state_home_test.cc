#include "base/state_home.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A user that no password file names.
constexpr uid_t kNobody = 4'200'042;

class StateHomeTest : public testing::Test {
 protected:
  void SetUp() override {
    // Not below Bazel's folder for the test, which may be in root's home: another user must be able to get to it.
    std::string made = "/tmp/state_home.XXXXXX";
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    directory_ = made;
    ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // Runs `check` in a process of its own, which may change its user and environment; it returns what is wrong.
  static void RunApart(const std::function<std::string()>& check) {
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) {
      const std::string wrong = check();
      _exit(write(pipes[1], wrong.data(), wrong.size()) == static_cast<ssize_t>(wrong.size()) ? 0 : 1);
    }
    close(pipes[1]);
    std::string wrong;
    char byte = 0;
    while (read(pipes[0], &byte, 1) == 1) wrong.push_back(byte);
    close(pipes[0]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(wrong, "");
  }

  std::string directory_;
};

TEST_F(StateHomeTest, TheUsersOwnIsTakenWhereItCanBeWrittenOrMade) {
  EXPECT_EQ(FindStateHome(directory_ + "/x/y", "/dev/null", directory_).path, directory_ + "/x/y");
  EXPECT_EQ(FindStateHome("", directory_, directory_).path, directory_ + "/.local/state");
  EXPECT_EQ(FindStateHome("relative", directory_, directory_).path, directory_ + "/.local/state");
  EXPECT_EQ(FindStateHome("", directory_, directory_).remark, "");
  EXPECT_TRUE(std::filesystem::is_empty(directory_)) << "looking makes nothing";
}

TEST_F(StateHomeTest, WithoutOneItIsADirectoryOfThisUserAmongTemporaryFilesAndTheRemarkSaysSo) {
  const std::string instead = absl::StrCat(directory_, "/farandole-state-", geteuid());
  for (const char* none : {"", "relative"}) {
    const StateHome found = FindStateHome(none, none, directory_);
    EXPECT_EQ(found.path, instead);
    EXPECT_THAT(found.remark, AllOf(StartsWith("neither XDG_STATE_HOME nor HOME names a directory, so"),
                                    HasSubstr(instead), HasSubstr("--state-dir")));
  }
  struct stat made = {};
  ASSERT_EQ(stat(instead.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0700u);
  EXPECT_EQ(FindStateHome("", "/dev/null", directory_).path, instead);
  EXPECT_THAT(FindStateHome("", "/dev/null", directory_).remark,
              StartsWith("/dev/null/.local/state/farandole cannot be written (Not a directory), so"));
  std::ofstream(directory_ + "/file").put('x');
  EXPECT_EQ(FindStateHome(directory_ + "/file", directory_, directory_).path, instead)
      << "what the user has named is not passed over for another place of the same kind";
}

TEST_F(StateHomeTest, AUserWithoutAPasswordEntryAndWithoutAHomeOfItsOwnHasAPlace) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  RunApart([this]() -> std::string {
    const std::string temporary = directory_ + "/tmp";
    if (mkdir(temporary.c_str(), 0700) != 0 || chmod(temporary.c_str(), 01777) != 0) return "cannot make a directory";
    if (setresuid(kNobody, kNobody, kNobody) != 0) return "cannot change the user";
    for (const std::string& home : {std::string("/"), std::string("/nonexistent"), directory_}) {
      const StateHome found = FindStateHome("", home, temporary);
      if (found.path != absl::StrCat(temporary, "/farandole-state-", kNobody))
        return absl::StrCat(home, ": ", found.path);
      const std::string wanted =
          absl::StrCat(home == "/" ? "" : home, "/.local/state/farandole cannot be written (Perm");
      if (found.remark.rfind(wanted, 0) != 0) return absl::StrCat(home, ": ", found.remark);
    }
    return "";
  });
}

TEST_F(StateHomeTest, AReadOnlyFileSystemIsNamed) {
  RunApart([this]() -> std::string {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return "";
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", directory_.c_str(), "tmpfs", MS_RDONLY, nullptr) != 0) {
      return "cannot mount";
    }
    const StateHome found = FindStateHome("", directory_, directory_);
    const std::string wanted =
        absl::StrCat(directory_, "/.local/state/farandole cannot be written (Read-only file system), and cannot make ",
                     directory_, "/farandole-state-", geteuid(), ": Read-only file system; set XDG_STATE_HOME");
    if (!found.path.empty() || found.remark.rfind(wanted, 0) != 0) return found.remark;
    const std::string temporary = TemporaryDirectory(directory_);
    return temporary == "/tmp" ? "" : temporary;
  });
}

TEST_F(StateHomeTest, AnotherUsersDirectoryAmongTemporaryFilesIsNotBelieved) {
  const std::string path = absl::StrCat(directory_, "/farandole-state-", geteuid());
  ASSERT_EQ(mkdir(path.c_str(), 0777), 0);
  ASSERT_EQ(chmod(path.c_str(), 0777), 0);
  const StateHome found = FindStateHome("", "", directory_);
  EXPECT_EQ(found.path, "");
  EXPECT_THAT(found.remark, AllOf(HasSubstr(path + " is not a directory that only this user can write"),
                                  HasSubstr("XDG_STATE_HOME")));
  ASSERT_EQ(chmod(path.c_str(), 0700), 0);
  EXPECT_EQ(FindStateHome("", "", directory_).path, path);
}

// Another user gives a directory of its own this name again and again, and takes it away.
TEST_F(StateHomeTest, ADirectoryThatAnotherUserPutsThereMeanwhileIsNotBelieved) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  ASSERT_EQ(chmod(directory_.c_str(), 01777), 0);
  const std::string path = absl::StrCat(directory_, "/farandole-state-0"), own = directory_ + "/own";
  const pid_t other = fork();
  if (other == 0) {
    if (setresuid(kNobody, kNobody, kNobody) != 0 || mkdir(own.c_str(), 0700) != 0) _exit(1);
    while (getppid() != 1) {
      rename(own.c_str(), path.c_str());
      rename(path.c_str(), own.c_str());
    }
    _exit(0);
  }
  size_t believed = 0, refused = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < end) {
    const StateHome found = FindStateHome("", "", directory_);
    if (found.path.empty()) {
      ++refused;
      continue;
    }
    struct stat there = {};
    if (stat(path.c_str(), &there) == 0 && there.st_uid == 0) {
      // The name is free for both again.
      rmdir(path.c_str());
    } else {
      ++believed;
    }
  }
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  EXPECT_EQ(believed, 0u);
  EXPECT_GT(refused, 0u);
}

TEST_F(StateHomeTest, TemporaryFilesGoWhereTheyCanBeMade) {
  EXPECT_EQ(TemporaryDirectory(directory_), directory_);
  for (const char* useless : {"", "relative", "/proc/nothing", "/dev/null"})
    EXPECT_EQ(TemporaryDirectory(useless), "/tmp");
}

TEST_F(StateHomeTest, APrivateDirectoryIsThisUsersAlone) {
  const std::string path = directory_ + "/private";
  ASSERT_TRUE(MakePrivateDirectory(path).ok());
  struct stat made = {};
  ASSERT_EQ(stat(path.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0700u);
  EXPECT_TRUE(MakePrivateDirectory(path).ok()) << "it is there already";
  ASSERT_EQ(chmod(path.c_str(), 0777), 0);
  EXPECT_EQ(MakePrivateDirectory(path).message(), path + " is not a directory that only this user can write");
  ASSERT_EQ(symlink("/tmp", (directory_ + "/link").c_str()), 0);
  EXPECT_EQ(MakePrivateDirectory(directory_ + "/link").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MakePrivateDirectory(directory_ + "/a/b").message(), HasSubstr("No such file or directory"));
}

}  // namespace
}  // namespace farandole
