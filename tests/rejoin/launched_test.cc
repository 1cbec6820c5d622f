// Elastic jobs under `farandole run`: what the launcher, the coordinator and the workers do together.
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rejoin/child.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

std::vector<std::string> programs;  // farandole, the worker that steps

std::string Scratch(const std::string& name) {
  const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  return std::string(getenv("TEST_TMPDIR")) + "/" + test->name() + "." + name;
}

// Workers that step; all read their letters from one named pipe, and the first to come takes one.
class LaunchedTest : public ::testing::Test {
 protected:
  LaunchedTest() { FD_CHECK_EQ(mkfifo(Scratch("letters").c_str(), 0600), 0); }

  // `farandole run OPTIONS sh -c SCRIPT`, by default as workers that step.
  std::unique_ptr<Child> Run(const Words& options, const std::string& script = "") {
    Words command = {programs[0], "run", "--verbose"};
    command.insert(command.end(), options.begin(), options.end());
    const std::string stepping = "exec 3<>" + Scratch("letters") + "; exec " + programs[1] + " <&3";
    command.insert(command.end(), {"sh", "-c", script.empty() ? stepping : script});
    return std::make_unique<Child>(
        command, std::map<std::string, std::string>{{"HOME", Scratch("home")}, {"PATH", "/usr/bin:/bin"}});
  }
  static void Expect(Child* run, const std::string& words) {
    EXPECT_TRUE(run->Await(words).has_value()) << "no line with \"" << words << "\" but:\n" << run->text();
  }
  // Of the worker with this number, as the launcher says it.
  static pid_t PidOf(Child* run, int number) {
    const std::string words = "worker " + std::to_string(number) + " is started, pid ";
    const size_t at = run->text().find(words);
    FD_CHECK(at != std::string::npos) << run->text();
    return static_cast<pid_t>(atoi(run->text().c_str() + at + words.size()));
  }
  void StopAll() const { std::ofstream(Scratch("letters")) << "s" << std::flush; }
};

TEST_F(LaunchedTest, AKilledWorkerIsReplacedAndTheJobEndsWell) {
  const auto run = Run({"-np", "3", "--min-np", "2"});
  for (int rank = 0; rank < 3; ++rank) Expect(run.get(), "stepped 3");
  kill(PidOf(run.get(), 1), SIGKILL);
  Expect(run.get(), "ended with SIGKILL after ");
  Expect(run.get(), "worker 3 is started, pid ");
  Expect(run.get(), "rank 2 of 3");
  for (int rank = 0; rank < 3; ++rank) Expect(run.get(), "stepped 3");
  StopAll();
  EXPECT_EQ(run->Wait(), 0);
  while (run->Await("\n").has_value()) {
  }
  EXPECT_THAT(run->text(), HasSubstr("[0] "));
  EXPECT_THAT(run->text(), Not(HasSubstr("failed first")));
  EXPECT_THAT(run->text(), Not(HasSubstr("worker 4 is started"))) << "who ends in order is not replaced";
}

TEST_F(LaunchedTest, WhatTheCoordinatorDecidesAboutTheJobIsSaidAndEndsTheRun) {
  const auto run = Run({"-np", "3", "--min-np", "1", "--reset-limit", "1"});
  for (int rank = 0; rank < 3; ++rank) Expect(run.get(), "stepped 3");
  kill(PidOf(run.get(), 0), SIGKILL);
  Expect(run.get(), "worker 3 is started, pid ");
  for (int rank = 0; rank < 3; ++rank) Expect(run.get(), "stepped 3");
  kill(PidOf(run.get(), 2), SIGKILL);
  Expect(run.get(), "the job has failed: ");
  EXPECT_EQ(run->Wait(), 137);
}

TEST_F(LaunchedTest, AProgramThatFailsEverywhereEndsTheRun) {
  const auto run = Run({"-np", "2", "--min-np", "1"}, "echo no such module >&2; exit 3");
  Expect(run.get(), "failed first, with exit code 3, ");
  EXPECT_EQ(run->Wait(), 3);
}

TEST_F(LaunchedTest, AHostThatGetsMorePlacesBringsNewcomersIntoTheJob) {
  std::ofstream(Scratch("hosts")) << "localhost:2\n";
  const auto run = Run({"-np", "2", "--host-discovery-script", "cat " + Scratch("hosts")});
  for (int rank = 0; rank < 2; ++rank) Expect(run.get(), "stepped 2");
  std::ofstream(Scratch("hosts")) << "localhost:3\n";
  Expect(run.get(), "worker 2 is started");
  for (int rank = 0; rank < 3; ++rank) Expect(run.get(), "stepped 3");
  StopAll();
  EXPECT_EQ(run->Wait(), 0);
}

TEST_F(LaunchedTest, AJobWithASharedCoordinatorOutlivesOneOfItsLaunchers) {
  Child coordinator(Words{programs[0], "serve", "--listen", "127.0.0.1:0", "--state-dir", Scratch("state")},
                    {{"HOME", Scratch("home")}});
  const std::optional<std::string> line = coordinator.Await("listening on ");
  ASSERT_TRUE(line.has_value()) << coordinator.text();
  const size_t begin = line->find("listening on ") + 13;
  const Words options = {"-np",
                         "2",
                         "--min-np",
                         "1",
                         "--max-np",
                         "4",
                         "--job",
                         "shared",
                         "--attach",
                         "--coordinator",
                         line->substr(begin, line->find(',', begin) - begin),
                         "--token-file",
                         Scratch("state") + "/token"};
  const auto first = Run(options);
  for (int rank = 0; rank < 2; ++rank) Expect(first.get(), "stepped 2");
  const auto second = Run(options);
  for (int rank = 0; rank < 2; ++rank) Expect(second.get(), "stepped 4");
  first->Kill();
  for (int rank = 0; rank < 2; ++rank) Expect(second.get(), "stepped 2");
  StopAll();
  EXPECT_EQ(second->Wait(), 0);
}

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  farandole::programs.assign(argv + 1, argv + argc);
  return RUN_ALL_TESTS();
}
