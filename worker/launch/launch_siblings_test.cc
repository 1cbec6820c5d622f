#include "worker/launch/launch_siblings.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ContainsRegex;
using ::testing::Eq;
using ::testing::StrEq;

// The name of this program as one process of a launch; its argument is its role.
constexpr char kWorker[] = "worker";

constexpr absl::Duration kLookFor = absl::Seconds(8);

LaunchedProcesses Step(int size) {
  LaunchedProcesses launched;
  launched.launcher = "srun";
  launched.number_variable = "SLURM_PROCID";
  launched.common_variables = {"SLURM_STEP_ID"};
  for (int number = 0; number < size; ++number) launched.here.push_back(number);
  launched.members = launched.here;
  return launched;
}

// Prints one sentence for each rank that is seen to have ended, until all others have or the time is over.
void LookOn(int size) {
  LaunchSiblings siblings(Step(size), "node-3");
  const absl::Time deadline = SteadyNow() + kLookFor;
  std::vector<LaunchSiblings::Ended> ended;
  while (SteadyNow() < deadline && static_cast<int>(ended.size()) < size - 1) {
    if (std::vector<LaunchSiblings::Ended> found = siblings.FindEnded(SteadyNow()); !found.empty()) ended = found;
    poll(nullptr, 0, 20);
  }
  for (const LaunchSiblings::Ended& end : ended) std::printf("%d: %s\n", end.launch_index, end.sentence.c_str());
}

// "look N", "stay", "exit CODE" or "late CODE"; "hide" writes over its variables and stays.
void Play(const std::string& role, char** variables) {
  const std::vector<std::string> words = absl::StrSplit(role, ' ');
  int number = 0;
  if (words.size() > 1 && !absl::SimpleAtoi(words[1], &number)) std::abort();
  if (words[0] == "look") return LookOn(number);
  if (words[0] == "late") poll(nullptr, 0, 1500);
  if (words[0] == "hide") {
    // As setproctitle does.
    for (char** variable = variables; *variable != nullptr; ++variable) memset(*variable, 0, strlen(*variable));
  }
  if (words[0] == "hide" || words[0] == "stay") pause();
  std::exit(number);
}

// A process of this name that starts one process for each role, all at once, and what its processes print.
class Launch {
 public:
  Launch(const char* name, const std::vector<std::string>& roles) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    output_ = ends[0];
    launcher_ = fork();
    if (launcher_ == 0) RunAs(name, roles, ends[1]);
    close(ends[1]);
  }
  ~Launch() {
    close(output_);
    kill(-launcher_, SIGKILL);
    waitpid(launcher_, nullptr, 0);
  }
  // Until all that print have ended.
  std::string Output() {
    std::string text;
    char part[4096];
    for (ssize_t size; (size = read(output_, part, sizeof(part))) > 0;) text.append(part, static_cast<size_t>(size));
    return text;
  }

 private:
  [[noreturn]] static void RunAs(const char* name, const std::vector<std::string>& roles, int output) {
    setpgid(0, 0);
    prctl(PR_SET_NAME, name);
    for (size_t number = 0; number < roles.size(); ++number) {
      std::vector<std::string> variables = {"PATH=/bin", absl::StrCat("SLURM_STEP_ID=", getpid()),
                                            absl::StrCat("SLURM_PROCID=", number)};
      if (fork() != 0) continue;
      if (absl::StartsWith(roles[number], "look")) dup2(output, 1);
      close(output);
      std::vector<char*> pointers;
      for (std::string& variable : variables) pointers.push_back(variable.data());
      pointers.push_back(nullptr);
      char* const arguments[] = {const_cast<char*>(kWorker), const_cast<char*>(roles[number].c_str()), nullptr};
      execve("/proc/self/exe", arguments, pointers.data());
      std::abort();
    }
    close(output);
    while (wait(nullptr) > 0) {
    }
    std::exit(0);
  }

  pid_t launcher_ = 0;
  int output_ = -1;
};

// All of them look at the same time, as each takes seconds.
class LaunchSiblingsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    late_ = new Launch("slurmstepd", {"look 3", "late 3", "stay"});
    early_ = new Launch("slurmstepd", {"look 2", "exit 0"});
    unknown_ = new Launch("a-container", {"look 2", "exit 0"});
    hidden_ = new Launch("slurmstepd", {"look 3", "hide", "exit 0"});
  }
  static void TearDownTestSuite() {
    for (Launch* launch : {late_, early_, unknown_, hidden_}) delete launch;
  }

  static Launch* late_;
  static Launch* early_;
  static Launch* unknown_;
  static Launch* hidden_;
};

Launch* LaunchSiblingsTest::late_ = nullptr;
Launch* LaunchSiblingsTest::early_ = nullptr;
Launch* LaunchSiblingsTest::unknown_ = nullptr;
Launch* LaunchSiblingsTest::hidden_ = nullptr;

TEST_F(LaunchSiblingsTest, AProcessThatEndsIsNamedWithItsPidAndOneThatRunsIsNot) {
  EXPECT_THAT(late_->Output(),
              ContainsRegex("^1: rank 1 of srun \\(pid [0-9]+ on node-3\\) ended( with exit code 3)?\n$"));
}

TEST_F(LaunchSiblingsTest, AProcessThatEndedBeforeTheFirstLookIsNamed) {
  EXPECT_THAT(early_->Output(), StrEq("1: rank 1 of srun on node-3 ended\n"));
}

TEST_F(LaunchSiblingsTest, BelowAnotherParentThanALauncherTheUnseenMayRunElsewhere) {
  EXPECT_THAT(unknown_->Output(), Eq(""));
}

TEST_F(LaunchSiblingsTest, AChildOfTheLauncherThatCannotBeToldMayBeAnyUnseenRank) {
  EXPECT_THAT(hidden_->Output(), Eq(""));
}

}  // namespace
}  // namespace farandole

int main(int count, char** words, char** variables) {
  if (count == 2 && absl::string_view(words[0]) == farandole::kWorker) {
    farandole::Play(words[1], variables);
    return 0;
  }
  ::testing::InitGoogleTest(&count, words);
  return RUN_ALL_TESTS();
}
