#include "deploy/launcher/host_discovery.h"

#include <signal.h>
#include <sys/prctl.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/launcher/process/child_watch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::HasSubstr;

class HostDiscoveryTest : public testing::Test {
 protected:
  HostDiscoveryTest() {
    sigset_t child_ended;
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ended, nullptr);
    plan_.environment = {"PATH=/usr/bin:/bin"};
    plan_.interval = absl::Milliseconds(1);
    plan_.default_slots = 2;
  }

  void Begin(const std::string& command) {
    plan_.command = command;
    children_ = ChildWatch::Make(&loop_, [this](pid_t pid, WorkerEnd end) {
                  if (discovery_->OnChildEnded(pid, end)) ++asked_;
                }).value();
    discovery_ = HostDiscovery::Make(plan_, &loop_, [this](absl::StatusOr<std::vector<HostSlots>> hosts) {
                   told_.push_back(std::move(hosts));
                 }).value();
  }
  // Until so many lists and reasons have come.
  void Await(size_t count) {
    while (told_.size() < count) ASSERT_TRUE(loop_.RunOnce().ok());
  }

  HostDiscovery::Plan plan_;
  EventLoop loop_;
  std::unique_ptr<ChildWatch> children_;
  std::unique_ptr<HostDiscovery> discovery_;
  std::vector<absl::StatusOr<std::vector<HostSlots>>> told_;
  int asked_ = 0;
};

TEST_F(HostDiscoveryTest, TheCommandIsAskedAgainAndAgain) {
  const std::string path = testing::TempDir() + "/asked";
  Begin(absl::StrCat("echo x >>", path, "; echo a:$(wc -l <", path, "); echo b"));
  Await(3);
  ASSERT_TRUE(told_[2].ok()) << told_[2].status();
  EXPECT_EQ((*told_[2])[0].slots, 3);
  EXPECT_EQ((*told_[2])[1].slots, 2);
}

TEST_F(HostDiscoveryTest, AFailureIsToldOnceAndWithTheCommandsWords) {
  const std::string path = testing::TempDir() + "/failing";
  Begin(
      absl::StrCat("echo x >>", path, "; [ $(wc -l <", path, ") -gt 3 ] && echo a && exit; echo no cloud >&2; exit 7"));
  Await(2);
  EXPECT_EQ(asked_, 4);
  EXPECT_THAT(std::string(told_[0].status().message()), HasSubstr("': it ended with exit code 7: no cloud"));
  EXPECT_TRUE(told_[1].ok());
}

TEST_F(HostDiscoveryTest, ACommandThatDoesNotAnswerIsKilled) {
  plan_.limit = absl::Milliseconds(50);
  Begin("sleep 1000");
  Await(1);
  EXPECT_THAT(std::string(told_[0].status().message()), HasSubstr("'sleep 1000': no answer within "));
}

TEST_F(HostDiscoveryTest, ACommandThatPrintsWithoutEndIsKilled) {
  Begin("yes");
  Await(1);
  EXPECT_THAT(std::string(told_[0].status().message()), HasSubstr("'yes': it printed more than 1048576 bytes"));
}

TEST_F(HostDiscoveryTest, WhatIsNoListIsNamed) {
  Begin("echo a:x");
  Await(1);
  EXPECT_THAT(std::string(told_[0].status().message()), HasSubstr("line 1 of its output: a host has 1 to"));
}

}  // namespace
}  // namespace farandole::launcher
