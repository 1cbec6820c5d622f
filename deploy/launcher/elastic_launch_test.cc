// Whole elastic launches whose workers are shell scripts, without a coordinator.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

// A coordinator that is played by files: workers write there which worker is lost, and that the program has finished;
// the test reads there the calls of the launch.
class FakeLink final : public JobLink {
 public:
  std::string ReportFlights(const std::vector<std::string>&) override { return ""; }
  explicit FakeLink(const std::string& name) : prefix_(absl::StrCat(testing::TempDir(), "/", name)) {
    for (const char* file : {"lost", "asked", "over", "told", "drained", "ended", "vacancy"})
      std::filesystem::remove(path(file));
  }

  std::string path(const std::string& file) const { return prefix_ + file; }
  std::string Read(const std::string& file) const {
    std::ifstream stream(path(file));
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }

  absl::StatusOr<ExitAnswer> ReportExit(int, const WorkerEnd&, const std::string&) override {
    ExitAnswer answer;
    is_over_ = is_over_ || !Read("over").empty();
    answer.is_job_over = is_over_ || !Read("ended").empty();
    if (answer.is_job_over && unknowns-- <= 0) answer.has_job_failed = !Read("ended").empty();
    answer.reason = Read("ended");
    return answer;
  }
  absl::Status Drain(const std::vector<int>& workers, const std::string& reason) override {
    std::ofstream(path("drained")) << absl::StrJoin(workers, ",") << ": " << reason << "\n";
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<LostWorker>> FindLost() override {
    // A coordinator that is asked again has sent its earlier answers.
    if (is_over_) std::ofstream(path("told")) << "1\n";
    const std::string lost = Read("lost");
    if (lost.empty()) return std::vector<LostWorker>();
    if (lost_since_ == absl::InfiniteFuture()) lost_since_ = absl::Now();
    std::ofstream(path("asked")) << "1\n";
    return std::vector<LostWorker>{{std::stoi(lost), absl::Now() - lost_since_, "it is silent"}};
  }
  absl::StatusOr<bool> EndIfShort(const std::string& reason) override {
    if (refusals-- > 0) return absl::UnavailableError("it is restarting");
    std::ofstream(path("ended")) << reason << "\n";
    return true;
  }

  absl::StatusOr<Vacancy> EndIfVacant(const Presence& presence) override {
    const std::string reason = Read("vacancy");
    if (reason.empty()) return Vacancy();
    const bool may_be_filled = hopes-- > 0;
    return Vacancy{absl::StrCat(absl::StrJoin(presence.ended_well, ";", absl::PairFormatter(":")), reason, ", and [",
                                absl::StrJoin(presence.running, ","), "] of ", presence.pids.size(), " run",
                                may_be_filled ? " and more may come" : ""),
                   may_be_filled};
  }

  void EndUnformed(const std::string&, const std::set<int64_t>&) override {}
  std::vector<pid_t> FindCause() override { return {}; }

  // How often the job cannot be ended.
  int refusals = 0;
  // How often the state of a job that is over cannot be had.
  int unknowns = 0;
  // How often a vacancy may be filled.
  int hopes = 0;

 private:
  const std::string prefix_;
  bool is_over_ = false;
  absl::Time lost_since_ = absl::InfiniteFuture();
};

TEST(ElasticLaunchTest, AWorkerThatFailsIsNamedAndReplacedUnderANewIndex) {
  LaunchedRun run(Elastic(2,
                          "case $INDEX in 0) echo oops >&2; kill -9 $$;; 1) read x <$DIR/gate1;; "
                          "2) echo go >$DIR/gate1;; esac"));
  EXPECT_EQ(run.Wait(), 0) << "the run has outlived it";
  EXPECT_THAT(run.Err(), HasSubstr("farandole: worker 0 (pid "));
  EXPECT_THAT(run.Err(), HasSubstr(") ended with SIGKILL after "));
  EXPECT_THAT(run.Err(), HasSubstr("; its last lines on stderr are above\n"));
  EXPECT_THAT(run.Err(), HasSubstr("farandole: worker 2 is started, pid "));
  EXPECT_THAT(run.Err(), Not(HasSubstr("failed first")));
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(ElasticLaunchTest, AReplacementHasThePlaceOfWhomItReplaces) {
  LaunchedRun run(Elastic(3,
                          "echo $SLOT; case $INDEX in 1) kill -9 $$;; 0|2) read x <$DIR/gate$((INDEX / 2));; "
                          "3) echo go >$DIR/gate0; echo go >$DIR/gate1;; esac"));
  EXPECT_EQ(run.Wait(), 0);
  for (const char* line : {"[0] 0\n", "[1] 1\n", "[2] 2\n", "[3] 1\n"}) EXPECT_THAT(run.Out(), HasSubstr(line));
}

TEST(ElasticLaunchTest, AWorkerThatEndsWellWhileOthersWaitForItEndsTheJobAlsoOfAFixedLaunch) {
  for (const bool is_elastic : {false, true}) {
    FakeLink link(is_elastic ? "vacant_elastic." : "vacant_fixed.");
    std::ofstream(link.path("vacancy")) << ": they wait for it";
    const std::string script = "case $INDEX in 1) echo x >$DIR/marks;; *) exec sleep 1000;; esac";
    Scenario scenario = Elastic(3, script);
    scenario.elastic->link = &link;
    if (!is_elastic) {
      scenario.elastic.reset();
      scenario.workers = 3;
    }
    scenario.link = &link;
    scenario.limits.after_failure = absl::Milliseconds(10);
    LaunchedRun run(scenario);
    run.AwaitMarks(1);
    EXPECT_EQ(run.Wait(), 1);
    EXPECT_THAT(run.Err(),
                testing::ContainsRegex("farandole: 1:worker 1 \\(pid [0-9]+\\) ended with exit code 0 after [0-9.]+ "
                                       "m?s: they wait for it, and \\[0,2\\] of 2 run\n"));
    EXPECT_THAT(run.LeftBehind(), IsEmpty());
  }
}

TEST(ElasticLaunchTest, AVacancyThatMayBeFilledIsToldOnceAndTheRunGoesOn) {
  FakeLink link("fillable.");
  link.hopes = 3;
  std::ofstream(link.path("vacancy")) << ": they wait for it";
  Scenario scenario = Elastic(2, "case $INDEX in 1) exit 0;; *) exec sleep 1000;; esac");
  scenario.elastic->link = &link;
  scenario.link = &link;
  scenario.limits.after_failure = absl::Milliseconds(10);
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 1) << "at last nobody can come";
  const std::string lines = "farandole: 1:worker 1 [^\n]*, and \\[0\\] of 1 run";
  EXPECT_THAT(run.Err(), testing::ContainsRegex(lines + " and more may come\n" + lines + "\n"));
  const size_t told = run.Err().find("more may come");
  EXPECT_EQ(run.Err().find("more may come", told + 1), std::string::npos) << run.Err();
}

TEST(ElasticLaunchTest, ADiscoveryThatHasNeverWorkedEndsTheRun) {
  Scenario scenario = Discovered(testing::TempDir() + "/unused_hosts", "", "true");
  scenario.elastic->discovery->command = "echo no such cluster >&2; exit 7";
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.Err(), HasSubstr("it ended with exit code 7: no such cluster"));
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(ElasticLaunchTest, ARunInWhichAllFailEndsWithTheFirstOfThem) {
  Scenario scenario = Elastic(2, "if [ $INDEX = 1 ]; then echo why >&2; exit 3; fi; read x <$DIR/gate0; exit 4");
  scenario.elastic->staff.rest = absl::Hours(1);
  LaunchedRun run(scenario);
  std::ofstream(run.directory() + "/gate0") << "go\n";
  EXPECT_THAT(run.Wait(), testing::AnyOf(3, 4)) << "whichever ends first";
  EXPECT_THAT(run.Err(), HasSubstr("failed first, with exit code "));
  const std::string said = run.Err();
  EXPECT_EQ(said.find("    why\n"), said.rfind("    why\n")) << "its last lines are told once: " << said;
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
  EXPECT_THAT(run.Err(), HasSubstr("host localhost is not listed any more: worker 0 is asked to leave"));
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

TEST(ElasticLaunchTest, OfAHostWithFewerPlacesTheYoungestWorkerIsAskedToLeave) {
  const std::string path = testing::TempDir() + "/fewer";
  FakeLink link("fewer.");
  Scenario scenario = Discovered(path, "localhost:2\n",
                                 absl::StrCat("if [ $INDEX = 0 ]; then until grep -q 1 ", link.path("drained"),
                                              "; do sleep 0.01; done; exit 0; fi; echo localhost:1 >", path,
                                              "; until grep -q 1 ", link.path("drained"), "; do sleep 0.01; done"));
  scenario.elastic->staff.first = 2;
  scenario.elastic->link = &link;
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(link.Read("drained"), "1: host localhost has only 1 place now\n");
  EXPECT_THAT(run.Err(), HasSubstr("host localhost has only 1 place now: worker 1 is asked to leave\n"));
}

TEST(ElasticLaunchTest, TheProcessOfALostWorkerIsKilledAfterAWhileAndReplaced) {
  FakeLink link("lost.");
  Scenario scenario = Elastic(2, absl::StrCat("case $INDEX in 1) echo 1 >", link.path("lost"), "; kill -STOP $$;; ",
                                              "0) read x <$DIR/gate0;; 2) rm ", link.path("lost"), "; echo 1 >",
                                              link.path("over"), "; echo go >$DIR/gate0;; esac"));
  scenario.elastic->link = &link;
  scenario.elastic->look_interval = absl::Milliseconds(10);
  scenario.elastic->lost_limit = absl::Milliseconds(100);
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 0) << "the run has outlived it";
  EXPECT_THAT(run.Err(),
              testing::ContainsRegex("worker 1 was lost 0\\.[0-9]* s ago, and its process is still there: it "
                                     "is killed; it is silent"));
  EXPECT_THAT(run.Err(), HasSubstr(") ended with SIGKILL after "));
  EXPECT_THAT(run.Err(), HasSubstr("farandole: worker 2 is started, pid "));
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(ElasticLaunchTest, WhoIsStillThereWhenTheProgramHasFinishedWithoutItIsKilledAtOnce) {
  FakeLink link("late.");
  Scenario scenario = Elastic(
      2, absl::StrCat("case $INDEX in 1) echo go >$DIR/gate0; exec sleep 1000;; 0) read x <$DIR/gate0; echo 1 >",
                      link.path("lost"), "; until [ -e ", link.path("asked"), " ]; do sleep 0.01; done; echo 1 >",
                      link.path("over"), ";; esac"));
  scenario.elastic->link = &link;
  scenario.elastic->look_interval = absl::Milliseconds(10);
  scenario.elastic->lost_limit = absl::Hours(1);
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 0) << "the program has not failed";
  EXPECT_THAT(run.Err(), HasSubstr(" ago, and its process is still there: it is killed; it is silent"));
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(ElasticLaunchTest, WhoIsLostWhenTheProgramIsFinishingHasItsTimeAndCountsAsAFailure) {
  FakeLink link("finishing.");
  Scenario scenario =
      Elastic(2, absl::StrCat("case $INDEX in 1) until [ -e ", link.path("told"), " ]; do sleep 0.01; done; echo 1 >",
                              link.path("lost"), "; exec sleep 1000;; 0) echo 1 >", link.path("over"), ";; esac"));
  scenario.elastic->link = &link;
  scenario.elastic->look_interval = absl::Milliseconds(10);
  scenario.elastic->lost_limit = absl::Milliseconds(100);
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 137);
  EXPECT_THAT(run.Err(), HasSubstr(" ago, and its process is still there: it is killed; it is silent"));
}

TEST(ElasticLaunchTest, AProgramThatFailsAgainAndAgainIsNotStartedForEver) {
  FakeLink link("again.");
  Scenario scenario = Elastic(
      2, absl::StrCat("[ $INDEX = 0 ] || exit 3; until [ -s ", link.path("ended"), " ]; do sleep 0.01; done; exit 1"));
  scenario.elastic->staff.rest = absl::Milliseconds(10);
  scenario.elastic->least = 2;
  scenario.elastic->link = &link;
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 3);
  const std::string claim =
      "5 times in a row a worker failed within 60.0 s of its start, the last one with exit code 3";
  EXPECT_THAT(run.Err(), HasSubstr(claim + ": no more are started\n"));
  EXPECT_EQ(link.Read("ended"), claim + ", and the 1 left cannot go on: at least 2 are needed\n");
  EXPECT_THAT(run.Err(), HasSubstr("worker 5 is started"));
  EXPECT_THAT(run.Err(), Not(HasSubstr("worker 6 is started")));
}

TEST(ElasticLaunchTest, WhereTheCoordinatorCannotEndTheJobItIsAskedAgain) {
  FakeLink link("refused.");
  link.refusals = 3;
  Scenario scenario = Elastic(
      2, absl::StrCat("[ $INDEX = 0 ] || exit 3; until [ -s ", link.path("ended"), " ]; do sleep 0.01; done; exit 1"));
  scenario.elastic->staff.rest = absl::Milliseconds(10);
  scenario.elastic->least = 2;
  scenario.elastic->link = &link;
  scenario.elastic->look_interval = absl::Milliseconds(10);
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 3);
  const std::string said = run.Err(), remark = "the job is not ended: it is restarting\n";
  EXPECT_THAT(said, HasSubstr(remark));
  EXPECT_EQ(said.find(remark), said.rfind(remark)) << "it is said once: " << said;
}

TEST(ElasticLaunchTest, AFailureThatTheCoordinatorDoesNotTellAtOnceIsAskedForUntilItDoes) {
  FakeLink link("unknown.");
  link.unknowns = 4;
  std::ofstream(link.path("ended")) << "worker 0 was lost";
  Scenario scenario = Elastic(3, "case $INDEX in 2) exec sleep 1000;; *) exit 3;; esac");
  scenario.elastic->link = &link;
  scenario.elastic->look_interval = absl::Milliseconds(10);
  scenario.limits.after_failure = absl::Milliseconds(10);
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 3);
  EXPECT_THAT(run.Err(), HasSubstr("the job has failed: worker 0 was lost; workers that still run have a while"));
  EXPECT_THAT(run.LeftBehind(), IsEmpty());
}

TEST(ElasticLaunchTest, WhereTheLastWorkersEndIsAnsweredWithoutTheJobsStateTheRunAwaitsIt) {
  FakeLink link("unknown_last.");
  link.unknowns = 2;
  std::ofstream(link.path("ended")) << "worker 0 was lost";
  Scenario scenario = Elastic(1, "exit 3");
  scenario.elastic->link = &link;
  scenario.elastic->look_interval = absl::Milliseconds(10);
  LaunchedRun run(scenario);
  EXPECT_EQ(run.Wait(), 3);
  EXPECT_THAT(run.Err(), HasSubstr("the job has failed: worker 0 was lost\n"));
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
