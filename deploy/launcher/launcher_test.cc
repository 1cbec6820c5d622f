#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "deploy/launcher/launched_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Scenario = LaunchedRun::Scenario;

Scenario Script(int workers, const std::string& script) {
  Scenario scenario;
  scenario.workers = workers;
  scenario.script = script;
  return scenario;
}

// Limits that a test can wait for.
Scenario Impatient(int workers, const std::string& script) {
  Scenario scenario = Script(workers, script);
  scenario.limits.after_failure = absl::Milliseconds(100);
  scenario.limits.after_request = absl::Milliseconds(200);
  scenario.limits.after_terminate = absl::Milliseconds(300);
  return scenario;
}

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(LauncherTest, EveryLineHasItsWorkersIndexAndStream) {
  LaunchedRun run(Script(2, "echo out of $INDEX; echo err of $INDEX >&2"));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_THAT(run.Out(), HasSubstr("[0] out of 0\n"));
  EXPECT_THAT(run.Out(), HasSubstr("[1] out of 1\n"));
  EXPECT_THAT(run.Err(), HasSubstr("[0] err of 0\n"));
  EXPECT_THAT(run.Err(), HasSubstr("[1] err of 1\n"));
  EXPECT_THAT(run.Err(), Not(HasSubstr("farandole:"))) << "nothing to say about a run that is well";
}

TEST(LauncherTest, ALineWithoutEndIsPrintedAsALine) {
  LaunchedRun run(Script(1, "printf 'no end'; printf 'half' >&2"));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(run.Out(), "[0] no end\n");
  EXPECT_EQ(run.Err(), "[0] half\n");
}

TEST(LauncherTest, IndicesOfManyWorkersHaveEqualWidth) {
  LaunchedRun run(Script(11, "echo x"));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_THAT(run.Out(), HasSubstr("[ 0] x\n"));
  EXPECT_THAT(run.Out(), HasSubstr("[10] x\n"));
}

TEST(LauncherTest, MuchOutputOfManyWorkersIsCompleteAndInOrder) {
  constexpr int kWorkers = 16;
  constexpr int kLines = 20000;
  LaunchedRun run(Script(kWorkers, absl::StrCat("seq 1 ", kLines)));
  EXPECT_EQ(run.Wait(), 0);
  std::map<std::string, int> last;
  int lines = 0;
  for (absl::string_view line : absl::StrSplit(run.Out(), '\n', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(line, "] ");
    ASSERT_EQ(parts.size(), 2u) << "a line was mixed with another: " << line;
    ASSERT_EQ(parts[1], absl::StrCat(++last[parts[0]])) << line;
    ++lines;
  }
  EXPECT_EQ(lines, kWorkers * kLines);
}

TEST(LauncherTest, BytesThatAreNoTextArriveUnchanged) {
  // Every byte but the two that end a line or start it anew.
  std::string bytes;
  for (int value = 1; value < 256; ++value) {
    if (value != '\n' && value != '\r') bytes.push_back(static_cast<char>(value));
  }
  Scenario scenario = Script(1, "cat; head -c 3 /dev/zero");
  scenario.input = bytes;
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(run.Out(), absl::StrCat("[0] ", bytes, std::string(3, '\0'), "\n"));
}

TEST(LauncherTest, OutputFilesHoldEveryByteOfTheirWorker) {
  Scenario scenario = Script(11, "printf '1%%\\r2%%\\nend of '$INDEX; echo e$INDEX >&2");
  scenario.output_directory = testing::TempDir() + "/output/of/run";
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(Slurp(scenario.output_directory + "/rank.03/stdout"), "1%\r2%\nend of 3");
  EXPECT_EQ(Slurp(scenario.output_directory + "/rank.10/stderr"), "e10\n");
  EXPECT_THAT(run.Out(), HasSubstr("[ 3] 2%\n"));
}

TEST(LauncherTest, AnOutputDirectoryThatCannotBeMadeIsNamed) {
  Scenario scenario = Script(1, "echo never");
  scenario.output_directory = "/dev/null/directory";
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.Err(), HasSubstr("cannot make the directory /dev/null: Not a directory"));
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(LauncherTest, OutputOfAWorkerIsNotWrittenWhereAnotherUserHasMadeItsPlace) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  Scenario scenario = Script(1, "echo never");
  scenario.output_directory = testing::TempDir() + "/output/of/another";
  const std::string directory = scenario.output_directory + "/rank.0", file = directory + "/stderr";
  std::filesystem::create_directories(directory);
  std::filesystem::create_symlink("/dev/null", file);
  for (const std::string& path : {file, directory}) {
    ASSERT_EQ(lchown(path.c_str(), 65534, 65534), 0);
    LaunchedRun run(scenario);
    EXPECT_EQ(run.Wait(), 1);
    EXPECT_THAT(run.Err(), HasSubstr(absl::StrCat("cannot write ", path, ": it belongs to user 65534, who is")));
    EXPECT_THAT(run.LeftBehind(), IsEmpty());
  }
}

TEST(LauncherTest, TheFirstFailureIsNamedWithCodeAndIsTheExitCode) {
  LaunchedRun run(Impatient(3, "if [ $INDEX = 1 ]; then echo the reason >&2; exit 3; fi; exec sleep 1000"));
  EXPECT_EQ(run.Wait(), 3);
  EXPECT_THAT(run.Err(), HasSubstr("failed first, with exit code 3, "));
  EXPECT_THAT(run.Err(),
              HasSubstr("; its last lines on stderr are above\nfarandole: workers 0 and 2 ended after that"));
  EXPECT_EQ(run.Err().find("the reason"), run.Err().rfind("the reason")) << "it is told once: " << run.Err();
}

TEST(LauncherTest, LastLinesThatOthersHaveBuriedAreToldAgain) {
  LaunchedRun run(Impatient(3,
                            "if [ $INDEX = 1 ]; then seq 1 30 >&2; echo the reason >&2; exit 3; fi; "
                            "trap 'seq 101 121 >&2; trap - TERM; kill $$' TERM; sleep 1000 & wait"));
  EXPECT_EQ(run.Wait(), 3);
  EXPECT_THAT(run.Err(), HasSubstr("failed first, with exit code 3, "));
  EXPECT_THAT(run.Err(), HasSubstr("its last lines on stderr:\n    12\n    13\n"));
  EXPECT_THAT(run.Err(),
              HasSubstr("    30\n    the reason\nfarandole: workers 0 and 2 ended after that, with SIGTERM\n"));
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(LauncherTest, AWorkerKilledBySignalIsNamedWithIt) {
  LaunchedRun run(Impatient(2, "if [ $INDEX = 0 ]; then kill -9 $$; fi; exec sleep 1000"));
  EXPECT_EQ(run.Wait(), 137);
  EXPECT_THAT(run.Err(), HasSubstr("worker 0 (pid "));
  EXPECT_THAT(run.Err(), HasSubstr("failed first, with SIGKILL, "));
  EXPECT_THAT(run.Err(), HasSubstr("it wrote nothing to stderr"));
}

TEST(LauncherTest, WorkersThatEndByThemselvesInTimeAreLeftInPeace) {
  Scenario scenario = Script(2, "if [ $INDEX = 0 ]; then exit 5; fi; trap 'echo disturbed' TERM; echo done; exit 1");
  scenario.limits.after_failure = absl::Hours(1);
  LaunchedRun run(scenario);
  EXPECT_THAT(run.Wait(), testing::AnyOf(5, 1)) << "whichever ends first";
  EXPECT_EQ(run.Out(), "[1] done\n");
}

TEST(LauncherTest, AWorkerThatIgnoresSigtermIsKilled) {
  LaunchedRun run(Impatient(2,
                            "if [ $INDEX = 0 ]; then read x <$DIR/gate0; exit 4; fi; trap '' TERM; echo 1 >$DIR/gate0; "
                            "while :; do sleep 1000; done"));
  EXPECT_EQ(run.Wait(), 4);
  EXPECT_THAT(run.Err(), HasSubstr("worker 1 ended after that, with SIGKILL"));
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(LauncherTest, AWorkerThatSigkillDoesNotEndIsNamedAndTheRunEnds) {
  // Of another user: to the launcher it is as one that hangs in the kernel.
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a process that others cannot kill";
  constexpr uid_t kNobody = 65534;
  char directory[] = "/tmp/unkillable.XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string program = absl::StrCat(directory, "/setpriv");
  std::filesystem::copy_file("/usr/bin/setpriv", program);
  ASSERT_EQ(chmod(directory, 0755), 0);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  const std::string ready = absl::StrCat(directory, "/ready");
  ASSERT_EQ(mkfifo(ready.c_str(), 0600), 0);
  ASSERT_EQ(chmod(ready.c_str(), 0666), 0);
  Scenario scenario = Impatient(2, absl::StrCat("if [ $INDEX = 1 ]; then read x <", ready, "; exit 4; fi; exec ",
                                                program, " --reuid=0 sh -c 'echo >", ready, "; exec sleep 1000'"));
  scenario.user = kNobody;
  scenario.kill_patience = absl::Milliseconds(200);
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 4);
  EXPECT_THAT(run.Err(),
              testing::ContainsRegex("farandole: worker 0 \\(pid [0-9]+\\) does not end on SIGKILL within 200ms; "
                                     "it hangs in the kernel \\(state .*\\), and is left behind"));
  std::filesystem::remove_all(directory);
}

TEST(LauncherTest, AStoppedWorkerIsKilledToo) {
  LaunchedRun run(Impatient(2, "if [ $INDEX = 0 ]; then exit 4; fi; trap '' TERM; kill -STOP $$"));
  EXPECT_EQ(run.Wait(), 4);
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(LauncherTest, WhoEndedWithZeroBeforeAFailureIsMentioned) {
  // A process that its parent has not reaped yet still counts for tail.
  LaunchedRun run(Script(2,
                         "if [ $INDEX = 0 ]; then echo $$ >$DIR/gate0; exit 0; fi; read pid <$DIR/gate0; "
                         "tail --pid=$pid -f /dev/null; exit 6"));
  EXPECT_EQ(run.Wait(), 6);
  EXPECT_THAT(run.Err(), HasSubstr("farandole: worker 0 had ended with exit code 0 before that"));
}

TEST(LauncherTest, GrandchildrenThatOutliveTheirParentsAreEnded) {
  LaunchedRun run(Script(2,
                         "sleep 1000 & setsid sleep 1000 & (trap '' TERM HUP; setsid sh -c 'sleep 1000; sleep 1000' "
                         ">/dev/null 2>&1 &) ; exit 0"));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(LauncherTest, WhatALeftoverPrintsAtItsEndIsStillPrinted) {
  LaunchedRun run(Script(1,
                         "sh -c 'trap \"echo last word; exit\" TERM; echo 1 >$DIR/gate0; sleep 1000 & wait' & "
                         "read ready <$DIR/gate0; exit 0"));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(run.Out(), "[0] last word\n");
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(LauncherTest, SignalsToStopArePassedOnAndGive128PlusTheirNumber) {
  const std::map<int, int> codes = {{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 129}, {SIGQUIT, 131}};
  for (const auto& [signal, code] : codes) {
    LaunchedRun run(Script(2, "trap 'echo told; exit 0' INT TERM HUP QUIT; echo 1 >$DIR/marks; sleep 1000 & wait"));
    run.AwaitMarks(4);
    kill(run.pid(), signal);
    EXPECT_EQ(run.Wait(), code);
    EXPECT_THAT(run.Out(), HasSubstr("[0] told\n"));
    EXPECT_THAT(run.Out(), HasSubstr("[1] told\n"));
    EXPECT_THAT(run.Err(), HasSubstr(absl::StrCat("got ", SignalName(signal))));
    EXPECT_THAT(run.Err(), Not(HasSubstr("failed first")));
    EXPECT_THAT(run.LeftBehind(), IsEmpty());
  }
}

TEST(LauncherTest, ASignalToTheWholeForegroundGroupCountsOnceAndNeverNot) {
  // Guard and launcher get it in either order; thirty runs see both.
  for (int repeat = 0; repeat < 30; ++repeat) {
    LaunchedRun run(Script(1, "echo 1 >$DIR/marks; exec sleep 1000"));
    run.AwaitMarks(2);
    kill(-run.pid(), SIGINT);
    ASSERT_EQ(run.Wait(), 130);
    ASSERT_THAT(run.Err(), HasSubstr("got SIGINT"));
    ASSERT_THAT(run.Err(), Not(HasSubstr("again")));
  }
}

TEST(LauncherTest, ASecondInterruptKills) {
  Scenario scenario = Script(2,
                             "trap '' TERM; trap 'echo 1 >$DIR/marks' INT; echo 1 >$DIR/marks; "
                             "while :; do sleep 1000 & wait; done");
  scenario.limits.same_interrupt = absl::ZeroDuration();
  LaunchedRun run(scenario);
  run.AwaitMarks(4);
  kill(run.pid(), SIGINT);
  run.AwaitMarks(4);
  kill(run.pid(), SIGINT);
  EXPECT_EQ(run.Wait(), 130);
  EXPECT_THAT(run.Err(), HasSubstr("got SIGINT again: the workers are killed"));
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(LauncherTest, UserSignalsReachTheWorkersOnly) {
  LaunchedRun run(Script(1, "trap 'echo usr1; exit 0' USR1; sh -c 'echo 1 >$DIR/marks; sleep 1000' & wait"));
  run.AwaitMarks(2);
  kill(run.pid(), SIGUSR1);
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(run.Out(), "[0] usr1\n");
}

TEST(LauncherTest, StopAndContinueReachEveryWorker) {
  LaunchedRun run(Script(2, "echo $$ >$DIR/pid$INDEX; echo 1 >$DIR/marks; read x <$DIR/gate$INDEX; exit 0"));
  run.AwaitMarks(4);
  kill(run.pid(), SIGTSTP);
  int status = 0;
  ASSERT_EQ(waitpid(run.pid(), &status, WUNTRACED), run.pid());
  ASSERT_TRUE(WIFSTOPPED(status)) << "the shell sees that the run is paused";
  for (const char* name : {"/pid0", "/pid1"}) {
    const std::string pid(absl::StripAsciiWhitespace(Slurp(run.directory() + name)));
    // The kernel stops a process at its next chance, not at once.
    const absl::Time patience = absl::Now() + absl::Minutes(1);
    while (!absl::StrContains(Slurp("/proc/" + pid + "/stat"), ") T ")) {
      ASSERT_LT(absl::Now(), patience) << name;
      sched_yield();
    }
  }
  kill(run.pid(), SIGCONT);
  for (const char* name : {"/gate0", "/gate1"}) std::ofstream(run.directory() + name) << "go\n";
  EXPECT_EQ(run.Wait(), 0);
}

TEST(LauncherTest, NothingOutlivesAKilledGuard) {
  LaunchedRun run(Script(2, "trap '' TERM; setsid sleep 1000 & echo 1 >$DIR/marks; sleep 1000; sleep 1000"));
  run.AwaitMarks(4);
  kill(run.pid(), SIGKILL);
  EXPECT_EQ(run.Wait(), 137);
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(LauncherTest, NothingOutlivesAKilledLauncher) {
  LaunchedRun run(Script(2, "trap '' TERM; setsid sleep 1000 & echo 1 >$DIR/marks; sleep 1000; sleep 1000"));
  run.AwaitMarks(4);
  kill(run.LauncherPid(), SIGKILL);
  EXPECT_EQ(run.Wait(), 137);
  EXPECT_THAT(run.Err(), HasSubstr("was killed by SIGKILL; its workers were killed as well"));
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(LauncherTest, NothingOutlivesAKilledGuardOfAPausedRun) {
  LaunchedRun run(Script(1, "setsid sleep 1000 & echo 1 >$DIR/marks; sleep 1000"));
  run.AwaitMarks(2);
  kill(run.pid(), SIGTSTP);
  int status = 0;
  ASSERT_EQ(waitpid(run.pid(), &status, WUNTRACED), run.pid());
  kill(run.pid(), SIGKILL);
  EXPECT_EQ(run.Wait(), 137);
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(LauncherTest, ACommandThatCannotBeExecutedIsNamed) {
  const std::string directory = testing::TempDir();
  std::ofstream(directory + "/data.txt") << "no program\n";
  struct Case {
    std::string command;
    int code;
    std::string reason;
  };
  std::ofstream(directory + "/noformat") << "neither a script nor a binary\n";
  std::ofstream(directory + "/nointerpreter") << "#!/no/such/interpreter\n";
  chmod((directory + "/noformat").c_str(), 0700);
  chmod((directory + "/nointerpreter").c_str(), 0700);
  const std::vector<Case> cases = {
      {"no-such-command", 127, "cannot execute 'no-such-command': not found in PATH (/usr/bin:/bin)"},
      {"./no/such/file", 127, "cannot execute './no/such/file': no such file"},
      {directory + "/nointerpreter", 127, "the interpreter that its first line names, does not exist"},
      {directory, 126, "it is a directory"},
      {directory + "/data.txt", 126, "Permission denied"},
      {directory + "/noformat", 126, "Exec format error"},
  };
  for (const Case& wrong : cases) {
    Scenario scenario;
    scenario.workers = 3;
    scenario.command = {wrong.command};
    LaunchedRun run(scenario);
    EXPECT_EQ(run.Wait(), wrong.code) << wrong.command;
    EXPECT_THAT(run.Err(), HasSubstr(wrong.reason));
    EXPECT_EQ(run.Err().find('\n'), run.Err().size() - 1) << "one sentence: " << run.Err();
    EXPECT_THAT(run.LeftBehind(), IsEmpty());
  }
}

TEST(LauncherTest, Worker0HasTheInputAndTheOthersHaveNone) {
  Scenario scenario = Script(2, "read line; echo \"got '$line'\"");
  scenario.input = "typed\n";
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_THAT(run.Out(), HasSubstr("[0] got 'typed'\n"));
  EXPECT_THAT(run.Out(), HasSubstr("[1] got ''\n"));
}

TEST(LauncherTest, AReaderThatIsGoneDoesNotEndTheRun) {
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  Scenario scenario = Script(1, "seq 1 100000; echo finished >&2");
  scenario.stdout_fd = pipe_fds[1];
  close(pipe_fds[0]);
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_THAT(run.Err(), HasSubstr("cannot write to stdout (Broken pipe)"));
  EXPECT_THAT(run.Err(), HasSubstr("[0] finished\n"));
  close(pipe_fds[1]);
}

TEST(LauncherTest, ASlowReaderMakesTheWorkersWaitAndLosesNothing) {
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  Scenario scenario = Script(2, "echo 1 >$DIR/marks; seq 1 500000");
  scenario.stdout_fd = pipe_fds[1];
  LaunchedRun run(scenario);
  close(pipe_fds[1]);
  run.AwaitMarks(4);
  std::string text;
  char bytes[3000];
  for (ssize_t count; (count = read(pipe_fds[0], bytes, sizeof(bytes))) > 0;) text.append(bytes, count);
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1000000);
  EXPECT_THAT(text, HasSubstr("[0] 500000\n"));
  EXPECT_THAT(text, HasSubstr("[1] 500000\n"));
  close(pipe_fds[0]);
}

TEST(LauncherTest, AReaderThatStandsStillDoesNotKeepAnInterruptedRun) {
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  Scenario scenario = Impatient(1, "echo 1 >$DIR/marks; exec yes");
  scenario.stdout_fd = pipe_fds[1];
  LaunchedRun run(scenario);
  run.AwaitMarks(2);
  kill(run.pid(), SIGTERM);
  EXPECT_EQ(run.Wait(), 143);
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

TEST(LauncherTest, AWorkerInheritsNoDescriptorAndNoneOfTheLaunchersSignalSettings) {
  LaunchedRun run(Script(1,
                         "while read name value; do [ $name = SigBlk: ] && echo $name $value; done </proc/$$/status; "
                         "sh -c 'kill -PIPE $$; echo SIGPIPE is ignored'; exec ls /proc/self/fd"));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(run.Out(), "[0] SigBlk: 0000000000000000\n[0] 0\n[0] 1\n[0] 2\n[0] 3\n")
      << "3 is the listed directory itself";
}

}  // namespace
}  // namespace farandole::launcher
