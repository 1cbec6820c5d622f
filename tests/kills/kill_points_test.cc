// A coordinator, a backup and a restoring, each a process, are killed (SIGKILL) at each step that they take on disk,
// before and after it: what they have said is done is done, and the next start finds everything in order.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "checkpoint/testing/file_calls.h"
#include "gtest/gtest.h"
#include "server/backup/state_backup.h"
#include "server/coordinator_fixture.h"
#include "tests/rejoin/child.h"

namespace farandole {
namespace {

namespace fs = std::filesystem;

// More than any role makes; the loops end sooner, at the first run that nothing interrupts.
constexpr int kMostCalls = 400;

std::string program;  // this one

void Say(const std::string& what) { std::cout << what << std::endl; }

// A coordinator's life, from its first start on. It says what its clients were told.
class Life : public CoordinatorFixture {
 public:
  explicit Life(const std::string& state_dir) { options_.state_dir = state_dir; }
  void TestBody() override {
    Start();
    Say("started");
    const auto workers = Train("train", 1);
    Say("has job train");
    for (const int64_t step : {1, 2}) {
      WriteCheckpoint(workers[0].get(), "train", step);
      Say(absl::StrCat("has checkpoint ", step));
    }
    v1::DeleteCheckpointRequest checkpoint;
    checkpoint.set_job("train");
    checkpoint.set_name("checkpoint");
    checkpoint.set_step(1);
    checkpoint.set_idempotency_key("checkpoint");
    Say("may lack checkpoint 1");
    EXPECT_TRUE(Client().DeleteCheckpoint(checkpoint).ok());
    Say("lacks checkpoint 1");
    v1::CreateTenantRequest tenant;
    tenant.set_tenant("vision");
    tenant.set_idempotency_key("tenant");
    Say(absl::StrCat("knows token ", Client().CreateTenant(tenant)->token()));
    Leave(Train("short", 1));
    Say("has job short");
    Say("may lack job short");
    EXPECT_TRUE(Client().DeleteJob("short", "", "job").ok());
    Say("lacks job short");
    Leave(workers);
    Say("saw the end of job train");
  }
};

// A coordinator that starts where a killed one has worked.
class Successor : public CoordinatorFixture {
 public:
  explicit Successor(const std::string& state_dir) { options_.state_dir = state_dir; }
  void TestBody() override { Start(); }

  void Expect(const std::string& said) {
    const std::vector<std::string> words = absl::StrSplit(said, ' ');
    const bool has = words[0] == "has";
    if (words[0] == "knows") {
      EXPECT_TRUE(TestClient(coordinator_->address(), words[2]).ListJobs().ok()) << said;
    } else if (words[0] == "saw") {
      EXPECT_EQ(Client().GetJob("train")->summary().state(), v1::JOB_STATE_FINISHED) << said;
    } else if (!has && words[0] != "lacks") {
      return;
    } else if (words.size() == 3 && words[1] == "job") {
      EXPECT_EQ(Client().GetJob(words[2]).ok(), has) << said;
    } else if (words.size() == 3 && words[1] == "checkpoint") {
      v1::FindCheckpointRequest find;
      find.set_job("train");
      find.set_step(std::stoi(words[2]));
      EXPECT_EQ(Client().FindCheckpoint(find).ok(), has) << said;
    }
  }
  void ExpectItWorks() { Leave(Train("after", 1)); }
};

class KillPointsTest : public ::testing::TestWithParam<bool> {
 protected:
  KillPointsTest() {
    root_ = ::testing::TempDir() + "/kill-points-XXXXXX";
    EXPECT_NE(mkdtemp(root_.data()), nullptr);
  }
  ~KillPointsTest() override { fs::remove_all(root_); }

  // Runs a role that is killed at its `call`th step; false: it has come to its end.
  bool RunKilled(const std::string& role, int call, const std::string& first, const std::string& second) {
    Child child({program, role, std::to_string(call), GetParam() ? "after" : "before", first, second}, {});
    const int code = child.Wait();
    said_ = absl::StrSplit(child.text(), '\n', absl::SkipEmpty());
    EXPECT_TRUE(code == 0 || code == -SIGKILL) << role << " ends with " << code << ": " << child.text();
    return code == -SIGKILL;
  }
  // The last thing that was said of something counts.
  std::set<std::string> Standing() const {
    std::set<std::string> standing(said_.begin(), said_.end());
    for (const std::string& said : said_) {
      if (absl::StartsWith(said, "may lack ")) standing.erase("has " + said.substr(9));
    }
    return standing;
  }

  std::string root_;
  std::vector<std::string> said_;
};

TEST_P(KillPointsTest, WhatACoordinatorHasSaidIsDoneAfterAKillAtAnyOfItsStepsOnDisk) {
  int call = 1;
  for (bool is_killed = true; is_killed && call < kMostCalls; ++call) {
    SCOPED_TRACE(absl::StrCat("killed at step ", call));
    const std::string state = absl::StrCat(root_, "/state", call);
    is_killed = RunKilled("live", call, state, "");
    if (fs::exists(state + "/store/CURRENT")) {
      const absl::StatusOr<StateVerdict> checked = CheckState(state);
      EXPECT_TRUE(checked.ok() && checked->broken.empty()) << checked.status();
    }
    Successor successor(state);
    successor.TestBody();
    if (HasFatalFailure()) return;
    for (const std::string& said : Standing()) successor.Expect(said);
    successor.ExpectItWorks();
    fs::remove_all(state);
  }
  EXPECT_GT(call, 30);
  EXPECT_LT(call, kMostCalls);
  EXPECT_EQ(Standing().count("saw the end of job train"), 1u) << "the last one was killed by nobody";
}

TEST_P(KillPointsTest, ABackupIsWholeOrNotThereAfterAKillAtAnyOfItsSteps) {
  const std::string state = root_ + "/state", file = root_ + "/backup";
  Life(state).TestBody();
  int call = 1;
  for (bool is_killed = true; is_killed && call < kMostCalls; ++call) {
    SCOPED_TRACE(absl::StrCat("killed at step ", call));
    is_killed = RunKilled("backup", call, state, file);
    const absl::StatusOr<BackupFacts> facts = ReadBackup(file, nullptr);
    EXPECT_TRUE(facts.ok() || absl::IsNotFound(facts.status())) << facts.status();
    EXPECT_TRUE(is_killed || facts.ok());
    fs::remove(file);
  }
  EXPECT_GT(call, 4);
  EXPECT_FALSE(fs::exists(file + ".partial")) << "the next one has taken it away";
}

TEST_P(KillPointsTest, ARestoringIsWholeOrBegunAnewAfterAKillAtAnyOfItsSteps) {
  const std::string state = root_ + "/state", file = root_ + "/backup";
  Life(state).TestBody();
  const absl::StatusOr<BackupFacts> made = BackUpState(state, file, absl::Now());
  ASSERT_TRUE(made.ok()) << made.status();
  int call = 1, refused = 0;
  for (bool is_killed = true; is_killed && call < kMostCalls; ++call) {
    SCOPED_TRACE(absl::StrCat("killed at step ", call));
    const std::string to = absl::StrCat(root_, "/to", call);
    is_killed = RunKilled("restore", call, file, to);
    CoordinatorOptions options;
    options.state_dir = to;
    if (fs::exists(to + "/restoring")) {
      const absl::Status start = Coordinator::Start(options).status();
      EXPECT_EQ(start.code(), absl::StatusCode::kFailedPrecondition) << start;
      ++refused;
    }
    const bool is_whole = fs::exists(to + "/store") && !fs::exists(to + "/restoring");
    if (!is_whole) {
      const absl::StatusOr<BackupFacts> again = RestoreState(file, to);
      EXPECT_TRUE(again.ok()) << again.status();
    }
    const absl::StatusOr<StateVerdict> checked = CheckState(to);
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_EQ(checked->rows, made->rows);
    const auto started = Coordinator::Start(options);
    ASSERT_TRUE(started.ok()) << started.status();
    std::ifstream token(state + "/token");
    EXPECT_EQ((*started)->token() + "\n", std::string(std::istreambuf_iterator<char>(token), {}));
    fs::remove_all(to);
  }
  EXPECT_GT(call, 10);
  EXPECT_GT(refused, 3);
}

INSTANTIATE_TEST_SUITE_P(Kills, KillPointsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "After" : "Before"; });

// kill_points_test ROLE CALL before|after FIRST SECOND
int RunRole(char** arguments) {
  const std::string role = arguments[1], first = arguments[4], second = arguments[5];
  KillAtFileCall(std::stoi(arguments[2]), std::string(arguments[3]) == "after");
  absl::Status status;
  if (role == "live") Life(first).TestBody();
  if (role == "backup") status = BackUpState(first, second, absl::Now()).status();
  if (role == "restore") status = RestoreState(first, second).status();
  if (!status.ok()) Say(status.ToString());
  // Without the steps of an orderly end, at which nobody is told anything.
  _exit(status.ok() && !::testing::Test::HasFailure() ? 0 : 1);
}

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) {
  farandole::program = argv[0];
  if (argc == 6 && std::string(argv[1]).rfind("--", 0) != 0) return farandole::RunRole(argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
