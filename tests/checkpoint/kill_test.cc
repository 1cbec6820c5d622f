// The coordinator and the writer of a checkpoint, each a process, are killed at each step that they take on disk: what
// the catalogue names is there, whole, and the next writer finds everything in order.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "checkpoint/manifest.h"
#include "checkpoint/testing/file_calls.h"
#include "gtest/gtest.h"
#include "server/coordinator.h"
#include "server/testing/test_client.h"
#include "tests/rejoin/child.h"
#include "worker/farandole.h"

namespace farandole {
namespace {

// More than any role makes; the loops end sooner, at the first run that nothing interrupts.
constexpr int kMostCalls = 60;

std::string program;  // this one

char ReadLetter() {
  char letter = 0;
  FD_CHECK_EQ(read(STDIN_FILENO, &letter, 1), 1);
  return letter;
}

// Learns by letters at which of its later calls it must be killed.
void ArmWhenTold() {
  const bool after = ReadLetter() == 'a';
  KillAtFileCall(ReadLetter() - '0', after);
  std::cout << "armed" << std::endl;
}

// kill_test coordinator STATE LISTEN
int RunCoordinator(char** arguments) {
  CoordinatorOptions options;
  options.state_dir = arguments[2];
  options.listen = arguments[3];
  const absl::StatusOr<std::unique_ptr<Coordinator>> coordinator = Coordinator::Start(options);
  FD_CHECK(coordinator.ok()) << coordinator.status();
  std::cout << "listens " << (*coordinator)->address() << std::endl;
  ArmWhenTold();
  pause();
  return 0;
}

// kill_test writer SCRATCH DIRECTORY TEXT
int RunWriter(char** arguments) {
  // Of a relative path no levels are looked at that were there before.
  FD_CHECK_EQ(chdir(arguments[2]), 0);
  const std::string directory = absl::StrCat(arguments[3], "/runs/7");
  FD_CHECK_EQ(farandole_init(nullptr, nullptr), FARANDOLE_OK) << farandole_last_error();
  std::cout << "ready" << std::endl;
  ArmWhenTold();
  const char* path = nullptr;
  int64_t number = 0;
  FD_CHECK_EQ(farandole_checkpoint_begin(directory.c_str(), "model", 100, "pt", /*replace=*/1, &number, &path),
              FARANDOLE_OK)
      << farandole_last_error();
  std::ofstream(path) << arguments[4];
  FD_CHECK_EQ(farandole_checkpoint_commit(number, &path), FARANDOLE_OK) << farandole_last_error();
  KillAtFileCall(0, false);
  farandole_shutdown(nullptr);
  return 0;
}

class KillTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string made = absl::StrCat(testing::TempDir(), "/kill.XXXXXX");
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    scratch_ = std::filesystem::canonical(made).string();
  }
  void TearDown() override { std::filesystem::remove_all(scratch_); }

  void StartCoordinator() {
    const std::string listen = address_.empty() ? "127.0.0.1:0" : address_;
    coordinator_ = std::make_unique<Child>(
        std::vector<std::string>{program, "coordinator", scratch_ + "/state", listen}, Environment(""));
    const std::optional<std::string> line = coordinator_->Await("listens ");
    ASSERT_TRUE(line.has_value()) << coordinator_->text();
    address_ = line->substr(line->rfind(' ') + 1);
  }

  // Returns when it is in its epoch.
  std::unique_ptr<Child> StartWriter(const std::string& job, const std::string& text) const {
    auto writer =
        std::make_unique<Child>(std::vector<std::string>{program, "writer", scratch_, job, text}, Environment(job));
    EXPECT_TRUE(writer->Await("ready").has_value()) << writer->text();
    return writer;
  }
  std::map<std::string, std::string> Environment(const std::string& job) const {
    return {{"FARANDOLE_COORDINATOR", address_},
            {"FARANDOLE_TOKEN_FILE", scratch_ + "/state/token"},
            {"FARANDOLE_JOB", job},
            {"FARANDOLE_SIZE", "1"},
            {"FARANDOLE_LAUNCH_INDEX", "0"},
            {"PATH", "/usr/bin:/bin"}};
  }
  static void Arm(Child* child, int call, bool after) {
    child->Tell(after ? 'a' : 'b');
    child->Tell(static_cast<char>('0' + call));
    ASSERT_TRUE(child->Await("armed").has_value()) << child->text();
  }

  TestClient Client() const {
    std::string token;
    std::ifstream(scratch_ + "/state/token") >> token;
    return TestClient(address_, token);
  }
  // Until the writer has ended: whenever the coordinator has been killed, another one takes its place. How often it
  // was.
  int ReplaceKilledCoordinator(const Child& writer) {
    for (int kills = 0;; ++kills) {
      siginfo_t ended = {};
      FD_CHECK_EQ(waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0);
      if (ended.si_pid == writer.pid()) return kills;
      FD_CHECK_EQ(ended.si_pid, coordinator_->pid());
      FD_CHECK_EQ(coordinator_->Wait(), -SIGKILL) << coordinator_->text();
      StartCoordinator();
    }
  }
  // As its launcher does, so that the next one need not wait.
  void ReportDeath(const std::string& job) const {
    v1::ReportExitRequest report;
    report.set_job(job);
    report.set_failed(true);
    report.set_end("SIGKILL");
    const absl::StatusOr<v1::ReportExitResponse> taken = Client().ReportExit(report);
    EXPECT_TRUE(taken.ok()) << taken.status();
  }

  // The text of the file that the catalogue names, which must be whole; "nothing" where it names none.
  std::string Committed(const std::string& job) const {
    v1::FindCheckpointRequest request;
    request.set_job(job);
    request.set_name("model");
    request.set_step(100);
    const absl::StatusOr<v1::FindCheckpointResponse> found = Client().FindCheckpoint(request);
    if (absl::IsNotFound(found.status())) return "nothing";
    EXPECT_TRUE(found.ok()) << found.status();
    const absl::Status whole = VerifyFile(found->checkpoint());
    EXPECT_TRUE(whole.ok()) << whole;
    std::string content;
    std::ifstream(found->checkpoint().path()) >> content;
    return content;
  }
  // The temporary files that are left.
  int Partial(const std::string& job) const {
    int count = 0;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(absl::StrCat(scratch_, "/", job, "/runs/7"), ignored))
      count += entry.path().filename().string()[0] == '.' ? 1 : 0;
    return count;
  }

  std::string scratch_;
  std::string address_;
  std::unique_ptr<Child> coordinator_;
};

TEST_F(KillTest, AWriterThatIsKilledAtAnyStepLeavesTheOldOrTheNewCheckpointAndTheNextWriterGoesOn) {
  StartCoordinator();
  // The first one makes the directory; the second one replaces what there is.
  for (const std::string victim : {"first", "second"}) {
    int kills = 0;
    for (int call = 1; call < kMostCalls && kills == call - 1; ++call) {
      const std::string job = absl::StrCat("killed-", victim, "-", call);
      std::set<std::string> possible = {"nothing"};
      for (const std::string text : {"first", "second", "third"}) {
        const std::unique_ptr<Child> writer = StartWriter(job, text);
        Arm(writer.get(), text == victim ? call : 0, /*after=*/true);
        const int end = writer->Wait();
        if (end != -SIGKILL) possible.clear();
        possible.insert(text);
        const std::string committed = Committed(job);
        EXPECT_EQ(possible.count(committed), 1u) << committed << ", call " << call;
        if (end == -SIGKILL) {
          ++kills;
          possible = {committed};
          ReportDeath(job);
          continue;
        }
        ASSERT_EQ(end, 0) << writer->text();
        EXPECT_EQ(Partial(job), 0) << "call " << call;
      }
    }
    // At least: the temporary file is made, the checkpoint synced and renamed, its manifest made, synced and renamed,
    // the directory synced.
    EXPECT_GE(kills, 7);
    EXPECT_LT(kills, kMostCalls - 1);
  }
}

TEST_F(KillTest, ACoordinatorThatIsKilledAtAnyStepHasTheCheckpointWhenItsSuccessorIsThere) {
  for (const bool after : {false, true}) {
    int kills = 0;
    for (int call = 1; call < kMostCalls && kills == call - 1; ++call) {
      coordinator_.reset();
      StartCoordinator();
      const std::string job = absl::StrCat("beside-", after ? "after-" : "before-", call);
      const std::unique_ptr<Child> writer = StartWriter(job, "weights");
      Arm(coordinator_.get(), call, after);
      Arm(writer.get(), 0, false);
      kills += ReplaceKilledCoordinator(*writer);
      EXPECT_EQ(writer->Wait(), 0) << writer->text();
      EXPECT_EQ(Committed(job), "weights") << "call " << call;
      EXPECT_EQ(Partial(job), 0);
    }
    // The grant is made durable, and so is the commit.
    EXPECT_GE(kills, 2) << (after ? "after" : "before");
    EXPECT_LT(kills, kMostCalls - 1);
  }
}

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "coordinator") return farandole::RunCoordinator(argv);
  if (role == "writer") return farandole::RunWriter(argv);
  ::testing::InitGoogleTest(&argc, argv);
  farandole::program = std::filesystem::canonical("/proc/self/exe").string();
  return RUN_ALL_TESTS();
}
