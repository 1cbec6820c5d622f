// Whole elastic launches whose workers are shell scripts, without a coordinator.
#include <signal.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "deploy/launcher/launched_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Scenario = LaunchedRun::Scenario;

// Begins with `first` workers on this host, which takes so many.
Scenario Elastic(int first, const std::string& script) {
  Scenario scenario;
  scenario.script = script;
  ElasticPlan elastic;
  elastic.staff.first = first;
  elastic.staff.most = first;
  elastic.staff.rest = absl::Milliseconds(100);
  elastic.hosts = {HostSlots{"localhost", first, true}};
  elastic.own_name = "node-1";
  scenario.elastic = elastic;
  return scenario;
}

// At most four workers on the hosts that the file lists, which begins with `hosts`.
Scenario Discovered(const std::string& path, const std::string& hosts, const std::string& script) {
  Scenario scenario = Elastic(1, script);
  std::ofstream(path) << hosts;
  scenario.elastic->hosts.clear();
  scenario.elastic->staff.most = 4;
  scenario.elastic->discovery.emplace();
  scenario.elastic->discovery->command = absl::StrCat("cat ", path);
  scenario.elastic->discovery->environment = {"PATH=/usr/bin:/bin"};
  scenario.elastic->discovery->interval = absl::Milliseconds(50);
  return scenario;
}

TEST(ElasticLaunchTest, AWorkerThatFailsIsNamedAndReplacedUnderANewIndex) {
  LaunchedRun run(Elastic(2,
                          "case $INDEX in 0) echo oops >&2; kill -9 $$;; 1) read x <$DIR/gate1;; "
                          "2) echo go >$DIR/gate1;; esac"));
  EXPECT_EQ(run.Wait(), 0) << "the run has outlived it";
  EXPECT_THAT(run.Err(), HasSubstr("farandole: worker 0 (pid "));
  EXPECT_THAT(run.Err(), HasSubstr(") ended with SIGKILL after "));
  EXPECT_THAT(run.Err(), HasSubstr("; its last lines on stderr:\n    oops\n"));
  EXPECT_THAT(run.Err(), HasSubstr("farandole: worker 2 is started, pid "));
  EXPECT_THAT(run.Err(), Not(HasSubstr("failed first")));
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(ElasticLaunchTest, ARunInWhichAllFailEndsWithTheFirstOfThem) {
  Scenario scenario = Elastic(2, "if [ $INDEX = 1 ]; then echo why >&2; exit 3; fi; read x <$DIR/gate0; exit 4");
  scenario.elastic->staff.rest = absl::Hours(1);
  LaunchedRun run(scenario);
  std::ofstream(run.directory() + "/gate0") << "go\n";
  EXPECT_THAT(run.Wait(), testing::AnyOf(3, 4)) << "whichever ends first";
  EXPECT_THAT(run.Err(), HasSubstr("failed first, with exit code "));
}

TEST(ElasticLaunchTest, WhatAFailedWorkerLeavesBehindEndsWithIt) {
  LaunchedRun run(Elastic(2,
                          "case $INDEX in 0) sleep 1000 & echo $! >$DIR/left; kill -9 $$;; 1) read x <$DIR/gate1;; "
                          "2) tail --pid=$(cat $DIR/left) -f /dev/null; echo go >$DIR/gate1;; esac"));
  EXPECT_EQ(run.Wait(), 0);
}

TEST(ElasticLaunchTest, AHostThatGetsMorePlacesGetsMoreWorkers) {
  const std::string path = testing::TempDir() + "/more";
  LaunchedRun run(Discovered(path, "localhost:1\n",
                             absl::StrCat("if [ $INDEX = 0 ]; then echo localhost:2 >", path,
                                          "; read x <$DIR/gate0; else echo go >$DIR/gate0; echo came; fi")));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(run.Out(), "[1] came\n");
}

TEST(ElasticLaunchTest, WorkersOfAHostThatIsNotListedAnyMoreAreAskedToLeave) {
  const std::string path = testing::TempDir() + "/gone";
  LaunchedRun run(Discovered(path, "localhost:1\n",
                             absl::StrCat("trap 'echo told; exit 0' TERM; : >", path, "; sleep 1000 & wait")));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(run.Out(), "[0] told\n");
  EXPECT_THAT(run.Err(), HasSubstr("host localhost is not listed any more: its workers are asked to leave"));
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(ElasticLaunchTest, WhoDoesNotLeaveIsKilled) {
  const std::string path = testing::TempDir() + "/stays";
  Scenario scenario =
      Discovered(path, "localhost:1\n", absl::StrCat("trap '' TERM; : >", path, "; while :; do sleep 1000; done"));
  scenario.elastic->leave_limit = absl::Milliseconds(50);
  scenario.elastic->terminate_limit = absl::Milliseconds(50);
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 137);
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(ElasticLaunchTest, WithoutAnyHostTheRunEndsAfterItsLimit) {
  Scenario scenario = Discovered(testing::TempDir() + "/none", "", "echo never");
  scenario.elastic->shortage_limit = absl::Milliseconds(300);
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.Err(), HasSubstr("farandole: no worker could be started within 0.3 s: 0 hosts are listed\n"));
}

TEST(ElasticLaunchTest, AStopEndsAnElasticRunForGood) {
  LaunchedRun run(Elastic(2, "echo 1 >$DIR/marks; exec sleep 1000"));
  run.AwaitMarks(4);
  kill(run.pid(), SIGTERM);
  EXPECT_EQ(run.Wait(), 143);
  EXPECT_THAT(run.Err(), Not(HasSubstr("is started")));
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(ElasticLaunchTest, NothingOutlivesTheKilledGuardOfAnElasticRun) {
  Scenario scenario = Elastic(2, "trap '' TERM; setsid sleep 1000 & echo 1 >$DIR/marks; sleep 1000; sleep 1000");
  for (const bool outlives : {false, true}) {
    scenario.elastic->outlives_launcher = outlives;
    LaunchedRun run(scenario);
    run.AwaitMarks(4);
    kill(run.pid(), SIGKILL);
    EXPECT_EQ(run.Wait(), 137);
    EXPECT_THAT(run.LeftBehind(), IsEmpty()) << "what runs here ends with the launcher in any case";
  }
}

}  // namespace
}  // namespace farandole::launcher
