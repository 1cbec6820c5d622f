// Elastic workers, each a process, and a coordinator, another one: what they do when some of them are lost, come or go.
#include <signal.h>
#include <stdlib.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rejoin/child.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> programs;  // farandole, the worker that steps, the worker that does not meet

std::string Scratch(const std::string& name) {
  const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  return std::string(getenv("TEST_TMPDIR")) + "/" + test->name() + "." + name;
}

class RejoinTest : public ::testing::Test {
 protected:
  void StartCoordinator(const std::string& listen) {
    const std::vector<std::string> command = {
        programs[0],   "serve",          "--listen",           listen,
        "--state-dir", Scratch("state"), "--silence-limit-ms", std::to_string(silence_limit_ms_)};
    coordinator_ = std::make_unique<Child>(command, std::map<std::string, std::string>{{"HOME", Scratch("home")}});
    const std::optional<std::string> line = coordinator_->Await("listening on ");
    FD_CHECK(line.has_value()) << coordinator_->text();
    const size_t begin = line->find("listening on ") + 13;
    address_ = line->substr(begin, line->find(',', begin) - begin);
  }

  Child& Start(int index, int program = 1) {
    if (coordinator_ == nullptr) StartCoordinator("127.0.0.1:0");
    const std::map<std::string, std::string> environment = {{"FARANDOLE_COORDINATOR", address_},
                                                            {"FARANDOLE_TOKEN_FILE", Scratch("state") + "/token"},
                                                            {"FARANDOLE_JOB", "rejoin"},
                                                            {"FARANDOLE_SIZE", std::to_string(size_)},
                                                            {"FARANDOLE_MIN_SIZE", "1"},
                                                            {"FARANDOLE_MAX_SIZE", std::to_string(size_)},
                                                            {"FARANDOLE_TRANSPORT", transport_},
                                                            {"FARANDOLE_HOST_ID", host_of_(index)},
                                                            {"FARANDOLE_OUTAGE_LIMIT_MS", outage_limit_ms_},
                                                            {"FARANDOLE_LAUNCH_INDEX", std::to_string(index)}};
    workers_.push_back(
        std::make_unique<Child>(std::vector<std::string>{programs[static_cast<size_t>(program)]}, environment));
    return *workers_.back();
  }
  void StartAll(int size) {
    size_ = size;
    for (int index = 0; index < size; ++index) Start(index);
    for (int index = 0; index < size; ++index) ExpectsStep(index, 1, index, size);
  }
  Child& worker(int index) { return *workers_[static_cast<size_t>(index)]; }

  void Expects(int index, const std::string& words) {
    Child& child = worker(index);
    const std::optional<std::string> line = child.Await(words);
    EXPECT_TRUE(line.has_value()) << "worker " << index << " does not say \"" << words << "\" but:\n"
                                  << child.text() << "\nthe coordinator:\n"
                                  << coordinator_->text();
  }
  // One of them has said it: the first worker to learn of a change has all leave, also those that do not know of it
  // yet.
  void ExpectsOfOne(const std::vector<int>& indices, const std::string& words) {
    std::string all;
    for (const int index : indices) all += worker(index).text();
    EXPECT_THAT(all, HasSubstr(words));
  }
  // It joins the epoch, and all of it add up.
  void ExpectsStep(int index, int epoch, int rank, int size) {
    Expects(index,
            "joined epoch " + std::to_string(epoch) + " rank " + std::to_string(rank) + " of " + std::to_string(size));
    Expects(index, "stepped " + std::to_string(size));
  }
  void StopAll(const std::vector<int>& running) {
    worker(running.front()).Tell('s');
    for (const int index : running) {
      Expects(index, "left 0");
      EXPECT_EQ(worker(index).Wait(), 0) << worker(index).text();
    }
  }

  int size_ = 0;
  // Beyond what a machine that is busy with the rest of the tests lets a process wait.
  int silence_limit_ms_ = 20'000;
  std::string transport_ = "auto";
  std::string (*host_of_)(int index) = [](int) { return std::string("one"); };
  std::string outage_limit_ms_ = "30000";
  std::unique_ptr<Child> coordinator_;
  std::string address_;
  std::vector<std::unique_ptr<Child>> workers_;
};

TEST_F(RejoinTest, WhenAWorkerIsKilledTheOthersGoOnInTheirProcesses) {
  StartAll(4);
  worker(2).Kill();
  for (const int index : {0, 1, 3}) Expects(index, "ended 10 rank 2 (");
  ExpectsStep(0, 2, 0, 3);
  ExpectsStep(1, 2, 1, 3);
  ExpectsStep(3, 2, 2, 3);
  StopAll({0, 1, 3});
}

TEST_F(RejoinTest, RankZeroMayBeKilledAndKilledAgain) {
  StartAll(4);
  worker(0).Kill();
  for (int index = 1; index < 4; ++index) ExpectsStep(index, 2, index - 1, 3);
  worker(1).Kill();
  for (int index = 2; index < 4; ++index) ExpectsStep(index, 3, index - 2, 2);
  StopAll({2, 3});
}

TEST_F(RejoinTest, WorkersOnSeveralHostsGoOnAfterALoss) {
  host_of_ = [](int index) { return std::string(index < 2 ? "one" : "two"); };
  StartAll(4);
  worker(0).Kill();
  for (int index = 1; index < 4; ++index) ExpectsStep(index, 2, index - 1, 3);
  worker(2).Kill();
  ExpectsStep(1, 3, 0, 2);
  ExpectsStep(3, 3, 1, 2);
  StopAll({1, 3});
}

TEST_F(RejoinTest, ANewcomerIsAnnouncedAndTakenIn) {
  StartAll(3);
  worker(1).Kill();
  ExpectsStep(0, 2, 0, 2);
  Start(3);
  ExpectsStep(0, 3, 0, 3);
  ExpectsStep(2, 3, 1, 3);
  ExpectsStep(3, 3, 2, 3);
  ExpectsOfOne({0, 2}, "change 1 joining 0 leaving others: ");
  StopAll({0, 2, 3});
}

TEST_F(RejoinTest, WhoDepartsIsDismissedAndTheOthersGoOn) {
  StartAll(3);
  worker(1).Tell('d');
  Expects(1, "departs 0");
  Expects(1, "dismissed ");
  EXPECT_EQ(worker(1).Wait(), 0);
  ExpectsOfOne({0, 1, 2}, "change 0 joining 1 leaving ");
  ExpectsStep(0, 2, 0, 2);
  ExpectsStep(2, 2, 1, 2);
  StopAll({0, 2});
}

TEST_F(RejoinTest, FiftyRejoinsLeaveNothingBehind) {
  StartAll(2);
  // "holds 17 descriptors 14 threads 1 segments"
  std::vector<std::vector<std::string>> held;
  for (int epoch = 2; epoch <= 52; ++epoch) {
    worker(epoch % 2).Tell('r');
    for (int index = 0; index < 2; ++index) ExpectsStep(index, epoch, index, 2);
    if (epoch > 2 && epoch < 52) continue;
    worker(1).Tell('p');
    const std::optional<std::string> line = worker(1).Await("holds ");
    ASSERT_TRUE(line.has_value()) << worker(1).text();
    held.push_back(absl::StrSplit(line->substr(line->find("holds ")), ' '));
  }
  EXPECT_EQ(held[0][1], held[1][1]) << "descriptors";
  EXPECT_EQ(held[0][5], held[1][5]) << "segments";
  // gRPC has threads of its own, and more when it is busy; one for each rejoin would be 50.
  EXPECT_LE(std::stoi(held[1][3]), std::stoi(held[0][3]) + 10) << "threads";
  StopAll({0, 1});
}

TEST_F(RejoinTest, LossesLeaveNothingBehind) {
  StartAll(2);
  std::vector<std::string> held;
  for (int round = 0; round < 6; ++round) {
    // The newest worker, which has the last rank.
    const int newest = round + 1;
    worker(newest).Kill();
    ExpectsStep(0, 2 * round + 2, 0, 1);
    Start(newest + 1);
    ExpectsStep(newest + 1, 2 * round + 3, 1, 2);
    ExpectsStep(0, 2 * round + 3, 0, 2);
    worker(0).Tell('p');
    const std::optional<std::string> line = worker(0).Await("holds ");
    ASSERT_TRUE(line.has_value()) << worker(0).text();
    held.push_back(line->substr(line->find("holds ")));
  }
  EXPECT_EQ(held.front(), held.back());
  StopAll({0, 7});
}

TEST_F(RejoinTest, AStoppedWorkerIsMissedAndComesBackAsANewcomer) {
  silence_limit_ms_ = 3'000;
  StartAll(3);
  worker(0).Signal(SIGSTOP);
  ExpectsStep(1, 2, 0, 2);
  ExpectsStep(2, 2, 1, 2);
  worker(0).Signal(SIGCONT);
  Expects(0, "ended 10 ");
  ExpectsStep(1, 3, 0, 3);
  ExpectsStep(2, 3, 1, 3);
  ExpectsStep(0, 3, 2, 3);
  ExpectsOfOne({1, 2}, "change 1 joining 0 leaving others: ");
  StopAll({0, 1, 2});
}

TEST_F(RejoinTest, WhoDiesBeforeItHasMetItsPeersEndsTheirEpochAtOnce) {
  size_ = 3;
  // First as the host's first rank, to which the others come, then as the last.
  Start(0, 2);
  Start(1);
  Start(2);
  Expects(0, "formed");
  worker(0).Kill();
  ExpectsStep(1, 2, 0, 2);
  ExpectsStep(2, 2, 1, 2);
  Start(3, 2);
  Expects(3, "formed");
  worker(3).Kill();
  ExpectsStep(1, 4, 0, 2);
  ExpectsStep(2, 4, 1, 2);
  StopAll({1, 2});
}

TEST_F(RejoinTest, WhoIsStoppedBeforeItHasMetItsPeersIsMissed) {
  silence_limit_ms_ = 3'000;
  size_ = 2;
  Start(0);
  Start(1, 2);
  Expects(1, "formed");
  worker(1).Signal(SIGSTOP);
  ExpectsStep(0, 2, 0, 1);
  StopAll({0});
}

TEST_F(RejoinTest, AFailureOfTheProgramEndsTheEpochAndTheRankComesBackAsANewcomer) {
  StartAll(2);
  worker(0).Tell('f');
  Expects(1, "ended 10 rank 0 (");
  // At once, or in the epoch after the next: as it comes before or after that is formed.
  Expects(1, " rank 0 of 2");
  Expects(0, " rank 1 of 2");
  StopAll({0, 1});
}

TEST_F(RejoinTest, ALossWhileTheCoordinatorIsAwayWaitsForIt) {
  StartAll(3);
  coordinator_->Kill();
  worker(1).Kill();
  Expects(0, "ended 10 ");
  Expects(2, "ended 10 ");
  StartCoordinator(address_);
  ExpectsStep(0, 2, 0, 2);
  ExpectsStep(2, 2, 1, 2);
  StopAll({0, 2});
}

TEST_F(RejoinTest, ACoordinatorThatDoesNotComeBackIsNamed) {
  outage_limit_ms_ = "1000";
  StartAll(2);
  coordinator_->Kill();
  worker(0).Kill();
  Expects(1, "failed 14 coordinator " + address_ + " has been unreachable for 1s");
  EXPECT_EQ(worker(1).Wait(), 3);
}

TEST_F(RejoinTest, AJobWithoutMinimumIsNotElasticAndARejoinSaysSo) {
  StartCoordinator("127.0.0.1:0");
  const std::map<std::string, std::string> environment = {{"FARANDOLE_COORDINATOR", address_},
                                                          {"FARANDOLE_TOKEN_FILE", Scratch("state") + "/token"},
                                                          {"FARANDOLE_JOB", "rigid"}};
  Child child({programs[1]}, environment);
  ASSERT_TRUE(child.Await("stepped 1").has_value()) << child.text();
  child.Tell('r');
  EXPECT_THAT(child.Await("failed 9 ").value_or(child.text()), HasSubstr("job rigid is not elastic"));
}

TEST_F(RejoinTest, AWorkerAloneRejoinsWithoutACoordinator) {
  Child child({programs[1]}, {});
  ASSERT_TRUE(child.Await("joined epoch 0 rank 0 of 1").has_value()) << child.text();
  child.Tell('r');
  ASSERT_TRUE(child.Await("joined epoch 0 rank 0 of 1").has_value()) << child.text();
  child.Tell('s');
  EXPECT_EQ(child.Wait(), 0);
}

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) farandole::programs.push_back(argv[i]);
  FD_CHECK_EQ(farandole::programs.size(), 3u);
  return RUN_ALL_TESTS();
}
