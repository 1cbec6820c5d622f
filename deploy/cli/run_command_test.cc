#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Runs the built binary as a user does, with a state directory of the test's own.
class RunCommandTest : public testing::Test {
 protected:
  RunCommandTest() {
    std::string pattern = absl::StrCat(testing::TempDir(), "/state.XXXXXX");
    state_ = mkdtemp(pattern.data());
  }

  // `farandole ARGUMENTS`; the exit code. `printed_` then holds its stdout and stderr together.
  int Run(const std::string& arguments) {
    return Execute(absl::StrCat("XDG_STATE_HOME=", state_,
                                " OMP_NUM_THREADS= TF_NUM_INTEROP_THREADS= deploy/cli/farandole ", arguments));
  }

  // The same of any command.
  int Execute(const std::string& command) {
    FILE* pipe = popen((command + " 2>&1 </dev/null").c_str(), "r");
    printed_.clear();
    char bytes[4096];
    for (size_t count; (count = fread(bytes, 1, sizeof(bytes), pipe)) > 0;) printed_.append(bytes, count);
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string state_;
  std::string printed_;
};

TEST_F(RunCommandTest, WorkersAreToldWhereToJoinAndTheTokenIsPrivate) {
  ASSERT_EQ(Run("run -np 2 --job a.b --start-timeout 1.5 sh -c '"
                "echo $FARANDOLE_JOB $FARANDOLE_SIZE $FARANDOLE_LAUNCH_INDEX $FARANDOLE_JOIN_TIMEOUT_MS; "
                "echo at $FARANDOLE_COORDINATOR; stat -c %a $FARANDOLE_TOKEN_FILE'"),
            0)
      << printed_;
  EXPECT_THAT(printed_, AllOf(HasSubstr("[0] a.b 2 0 1500\n"), HasSubstr("[1] a.b 2 1 1500\n")));
  EXPECT_THAT(printed_, AllOf(HasSubstr("[0] at 127.0.0.1:"), HasSubstr("[1] 600\n")));
}

TEST_F(RunCommandTest, TheBuildTicksTheFrameworksThatPythonHas) {
  const std::string python = absl::StrCat(state_, "/python3");
  std::ofstream(python)
      << "#!/bin/sh\necho python 3.11.2; echo jax 0.10.2; echo tensorflow 2.12.1; echo farandole /x\n";
  ASSERT_EQ(chmod(python.c_str(), 0700), 0);
  ASSERT_EQ(Execute(absl::StrCat("PATH=", state_, ":$PATH deploy/cli/farandole run --check-build")), 0) << printed_;
  EXPECT_THAT(printed_,
              AllOf(HasSubstr("    [X] JAX\n"), HasSubstr("    [ ] PyTorch (not installed)\n"),
                    HasSubstr("    [ ] TensorFlow (farandole.tensorflow needs tensorflow from 2.13 on, and this "
                              "Python has 2.12.1)\n")));
}

TEST_F(RunCommandTest, NothingSecretIsOnACommandLine) {
  ASSERT_EQ(Run("run -np 1 sh -c 'grep -rlaF -f $FARANDOLE_TOKEN_FILE /proc/[0-9]*/cmdline 2>/dev/null; "
                "env | grep -F -f $FARANDOLE_TOKEN_FILE; echo searched'"),
            0)
      << printed_;
  EXPECT_EQ(printed_, "[0] searched\n");
}

TEST_F(RunCommandTest, ADefaultedNameIsNumberedWhileItRunsAndAGivenOneRefused) {
  // The inner run is part of the outer one, so that both run at the same time.
  const std::string inner = absl::StrCat("XDG_STATE_HOME=", state_, " deploy/cli/farandole run -np 1");
  ASSERT_EQ(Run(absl::StrCat("run -np 1 sh -c '", inner, " sh -c \"echo \\$FARANDOLE_JOB\"; ", inner,
                             " --job sh true; echo code $?'")),
            0)
      << printed_;
  EXPECT_THAT(printed_, HasSubstr("job 'sh' is running already, so this run is job 'sh-2'"));
  EXPECT_THAT(printed_, HasSubstr("[0] [0] sh-2\n"));
  EXPECT_THAT(printed_, HasSubstr("job 'sh' is running already: the launcher with pid "));
  EXPECT_THAT(printed_, HasSubstr("[0] code 1\n"));
}

TEST_F(RunCommandTest, ANamedCoordinatorIsUsedAndNoWorkerStartsWithoutIt) {
  const std::string token_file = state_ + "/token";
  std::ofstream(token_file) << "token";
  // Nothing listens on port 1.
  EXPECT_EQ(Run(absl::StrCat("run -np 1 --coordinator 127.0.0.1:1 --start-timeout 0.1 --token-file ", token_file,
                             " sh -c 'echo started'")),
            1);
  EXPECT_THAT(printed_, StartsWith("farandole: coordinator 127.0.0.1:1 "));
  EXPECT_THAT(printed_, Not(HasSubstr("started")));
  EXPECT_EQ(Run("run -np 1 --coordinator far:1234 --token-file /no/such true"), 1);
  EXPECT_EQ(printed_, "farandole: --token-file /no/such cannot be read: No such file or directory\n");
}

TEST_F(RunCommandTest, WithoutAPlaceForTheStateOneSentenceSaysSo) {
  EXPECT_EQ(Run("run -np 1 --state-dir /dev/null/state true"), 1);
  EXPECT_EQ(printed_, "farandole: cannot make directory /dev/null: Not a directory\n");
}

// As containers are started: without a home, with one that is not there or cannot be written, by a user that no
// password file names.
TEST_F(RunCommandTest, WithoutAWritableHomeItRunsAndOneLineSaysWhereItsStateIs) {
  const std::string temporary = state_ + "/tmp";
  ASSERT_EQ(mkdir(temporary.c_str(), 0777), 0);
  const std::string as_nobody = "unshare --user --map-user=4200042 --map-group=4200042";
  const bool may_be_nobody = system((as_nobody + " true 2>/dev/null").c_str()) == 0;
  for (const std::string& home : {std::string("-u HOME"), std::string("HOME=/dev/null"), std::string("HOME=/proc")}) {
    const bool is_nobody = home == "HOME=/proc";
    if (is_nobody && !may_be_nobody) continue;
    const std::string place =
        absl::StrCat(temporary, "/farandole-state-", is_nobody ? std::string("4200042") : absl::StrCat(geteuid()));
    const std::string in_it = absl::StrCat("env -u XDG_STATE_HOME ", home, " TMPDIR=", temporary, " ",
                                           is_nobody ? as_nobody : "", " deploy/cli/farandole ");
    ASSERT_EQ(Execute(absl::StrCat(in_it, "run -np 1 --job mnist sh -c 'echo trains'")), 0) << printed_;
    const std::string said = absl::StrCat(", so state and checkpoint catalogue are kept in ", place, ", ");
    EXPECT_THAT(printed_, AllOf(testing::StartsWith("farandole: "), HasSubstr(said), HasSubstr("\n[0] trains\n")));
    EXPECT_EQ(std::count(printed_.begin(), printed_.end(), '\n'), 2) << printed_;
    struct stat made = {};
    ASSERT_EQ(stat(place.c_str(), &made), 0) << place;
    EXPECT_EQ(made.st_mode & 0777, 0700u);
    // Another command finds it there.
    EXPECT_EQ(Execute(in_it + "job list"), 0);
    EXPECT_EQ(printed_, absl::StrCat("no jobs in ", place, "/farandole, and no coordinator runs there\n"));
  }
}

TEST_F(RunCommandTest, VerboseSaysWithWhichSettings) {
  ASSERT_EQ(Run(absl::StrCat("run -np 2 --verbose --output-filename ", state_, "/output true")), 0) << printed_;
  EXPECT_THAT(printed_, HasSubstr("farandole: job 'true', 2 workers, coordinator 127.0.0.1:"));
  EXPECT_THAT(printed_, HasSubstr(absl::StrCat(state_, "/farandole/jobs/true, metrics at http://127.0.0.1:")));
  EXPECT_THAT(printed_, HasSubstr("ended with exit code 0 after "));
  EXPECT_THAT(printed_, Not(HasSubstr("_THREADS"))) << "the user has set them";
  ASSERT_EQ(Execute(absl::StrCat("XDG_STATE_HOME=", state_, " OMP_NUM_THREADS=3 env -u TF_NUM_INTEROP_THREADS ",
                                 "deploy/cli/farandole run -np 2 --verbose true")),
            0)
      << printed_;
  EXPECT_THAT(printed_, Not(HasSubstr("OMP_NUM_THREADS")));
  EXPECT_THAT(printed_, HasSubstr("farandole: TF_NUM_INTEROP_THREADS="));
}

TEST_F(RunCommandTest, ItsDashboardIsWhereItWasAskedFor) {
  ASSERT_EQ(Run("run -np 1 --job mnist --http 127.0.0.1:0 true"), 0) << printed_;
  EXPECT_THAT(printed_, testing::ContainsRegex("farandole: dashboard at http://127\\.0\\.0\\.1:[0-9]+/, token in "));
  ASSERT_EQ(Run("run -np 1 --job mnist --http auto true"), 0) << printed_;
  EXPECT_THAT(printed_,
              testing::ContainsRegex("farandole: dashboard at http://127\\.0\\.0\\.1:[1-9][0-9]*/, token in "));
  EXPECT_EQ(Run("run -np 1 --http 0.0.0.0:0 true"), 1);
  EXPECT_THAT(printed_, HasSubstr("--http 0.0.0.0:0: beyond this machine's loopback"));
  EXPECT_EQ(Run("run -np 1 --http 127.0.0.1:0 --coordinator far:1 --token-file /dev/null true"), 2);
}

TEST_F(RunCommandTest, TheDoctorFindsNothingThatKeepsJobsFromRunningHere) {
  EXPECT_EQ(Run("doctor --json"), 0) << printed_;
  EXPECT_THAT(printed_, AllOf(HasSubstr("\"subject\": \"shm\""), HasSubstr("\"level\": \"OK\"")));
  EXPECT_EQ(Run("doctor --python no-such-python"), 0) << printed_;
  EXPECT_THAT(printed_, AllOf(HasSubstr("OK    shm "), HasSubstr("WARN  python "), HasSubstr("name one by --python")));
}

TEST_F(RunCommandTest, ItsCoordinatorIsFoundFromAnotherTerminalWhileItRunsOnly) {
  const std::string list = absl::StrCat("XDG_STATE_HOME=", state_, " deploy/cli/farandole job list");
  const std::string listed = absl::StrCat(state_, "/listed");
  ASSERT_EQ(Run(absl::StrCat("run -np 1 --job mnist sh -c '(", list, "; ", list, " --state-dir ", state_,
                             "/farandole/jobs/mnist) >", listed, "; kill -9 $PPID'")),
            137);
  std::ostringstream text;
  text << std::ifstream(listed).rdbuf();
  EXPECT_EQ(text.str(), "no jobs\nno jobs\n");
  // The address of a coordinator that was killed stays behind, and is not believed.
  EXPECT_EQ(Run("job list"), 0);
  EXPECT_EQ(printed_, absl::StrCat("no jobs in ", state_, "/farandole, and no coordinator runs there\n"));
}

TEST_F(RunCommandTest, TheBinaryHasAllItsCommands) {
  EXPECT_EQ(Run("--version"), 0);
  EXPECT_EQ(printed_, absl::StrCat("farandole ", kVersion, "\n"));
  EXPECT_EQ(Run("--help"), 0);
  EXPECT_THAT(printed_,
              AllOf(HasSubstr("  run "), HasSubstr("  serve "), HasSubstr("  job "), HasSubstr("  checkpoint ")));
  EXPECT_EQ(Run("sevre"), 2);
  EXPECT_THAT(printed_, HasSubstr("did you mean 'serve'?"));
}

}  // namespace
}  // namespace farandole
