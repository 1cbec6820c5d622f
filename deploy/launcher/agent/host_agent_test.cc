// An agent in a process of its own, with the test as its launcher: nothing of it outlives the test.
#include "deploy/launcher/agent/host_agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "deploy/launcher/process/descendants.h"
#include "deploy/launcher/protocol/agent_frames.h"
#include "deploy/launcher/protocol/agent_messages.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Far above what anything here takes on a machine that is busy with other things.
constexpr int kPatienceMs = 60 * 1000;

AgentSignal Signal(uint32_t signal, bool whole_group, std::optional<uint32_t> worker = std::nullopt) {
  AgentSignal message;
  message.set_signal(signal);
  message.set_whole_group(whole_group);
  if (worker.has_value()) message.set_worker(*worker);
  return message;
}

AgentGo Go(uint32_t worker) {
  AgentGo go;
  go.add_workers(worker);
  return go;
}

class HostAgentTest : public testing::Test {
 protected:
  HostAgentTest() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGPIPE, SIG_IGN);
    std::string pattern = absl::StrCat(testing::TempDir(), "/agent.XXXXXX");
    directory_ = mkdtemp(pattern.data());
  }
  ~HostAgentTest() override {
    SignalDescendants(SIGKILL);
    while (waitpid(-1, nullptr, 0) > 0) SignalDescendants(SIGKILL);
    if (to_ >= 0) close(to_);
    if (from_ >= 0) close(from_);
    std::filesystem::remove_all(directory_);
  }

  void StartAgent(absl::Duration silence_limit = absl::Minutes(10)) {
    int to[2];
    int from[2];
    ASSERT_EQ(pipe2(to, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(from, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to[0], 0);
      dup2(from[1], 1);
      for (const int fd : {to[0], to[1], from[0], from[1]}) close(fd);
      _exit(RunGuarded("farandole", [&](const GuardLink& guard) {
        HostAgentPlan plan;
        plan.private_directory = directory_;
        plan.environment = {"PATH=/usr/bin:/bin", absl::StrCat("DIR=", directory_)};
        plan.cores = 6;
        plan.find_coordinator = [](const std::vector<std::string>& addresses, const std::string&) {
          return addresses.back();
        };
        plan.silence_limit = silence_limit;
        plan.guard = guard;
        return HostAgent(std::move(plan)).Run();
      }));
    }
    close(to[0]);
    close(from[1]);
    to_ = to[1];
    from_ = from[0];
    const Frame hello = Next();
    EXPECT_EQ(hello.type, FrameType::kHello);
    EXPECT_EQ(Decode<AgentHello>(hello.message)->version(), kVersion);
  }

  AgentOrder Order(const std::string& script, uint32_t count = 1) const {
    AgentOrder order;
    for (const std::string& argument : {std::string("sh"), std::string("-c"), script}) order.add_arguments(argument);
    order.set_directory(directory_);
    order.set_size_here(count);
    order.set_size(8);
    order.set_job("train");
    return order;
  }

  void Send(FrameType type, const google::protobuf::Message& message) { Send(type, message.SerializeAsString()); }

  void Send(FrameType type, const std::string& message = "") {
    const std::string frame = EncodeFrame(type, message);
    ASSERT_EQ(write(to_, frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
  }

  // Starts the order's workers and waits until `count` of them run.
  void Begin(const AgentOrder& order) {
    Send(FrameType::kOrder, order);
    ASSERT_EQ(Next().type, FrameType::kReady);
    AgentGo go;
    for (uint32_t i = 0; i < order.size_here(); ++i) go.add_workers(4 + i);
    Send(FrameType::kGo, go);
    for (uint32_t i = 0; i < order.size_here(); ++i) AwaitType(FrameType::kStarted);
  }

  // The agent's next frame; one of type 0 at its end.
  Frame Next() {
    for (;;) {
      if (is_greeted_) {
        const absl::StatusOr<std::optional<Frame>> frame = frames_.Next();
        EXPECT_TRUE(frame.ok()) << frame.status();
        if (!frame.ok()) return Frame{};
        if (frame->has_value()) return **frame;
      }
      pollfd ready{from_, POLLIN, 0};
      if (poll(&ready, 1, kPatienceMs) != 1) {
        ADD_FAILURE() << "the agent says nothing";
        return Frame{};
      }
      char bytes[65536];
      const ssize_t count = read(from_, bytes, sizeof(bytes));
      if (count <= 0) return Frame{};
      std::string rest;
      if (is_greeted_) {
        frames_.Push(absl::string_view(bytes, static_cast<size_t>(count)));
      } else if (greeting_.Push(absl::string_view(bytes, static_cast<size_t>(count)), &rest)) {
        is_greeted_ = true;
        frames_.Push(rest);
      }
    }
  }

  // Gathers output on the way.
  Frame AwaitType(FrameType type) {
    for (;;) {
      Frame frame = Next();
      if (frame.type == type || frame.type == FrameType{}) return frame;
      if (frame.type != FrameType::kOutput) continue;
      const absl::StatusOr<AgentOutput> output = Decode<AgentOutput>(frame.message);
      EXPECT_TRUE(output.ok()) << output.status();
      output_.append(output->text());
    }
  }

  // Reads output until a worker has said that.
  void AwaitOutput(const std::string& text) {
    while (output_.find(text) == std::string::npos) {
      const Frame frame = Next();
      ASSERT_EQ(frame.type, FrameType::kOutput);
      const absl::StatusOr<AgentOutput> output = Decode<AgentOutput>(frame.message);
      output_.append(output->text());
    }
  }

  int AwaitExit() {
    const int fd = OpenProcess(pid_);
    pollfd ended{fd, POLLIN, 0};
    EXPECT_EQ(poll(&ended, 1, kPatienceMs), 1) << "the agent does not end";
    close(fd);
    int status = 0;
    waitpid(pid_, &status, WNOHANG);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // The test's descendants that do not end.
  static std::vector<pid_t> LeftBehind() {
    for (;;) {
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      const std::vector<pid_t> left = Descendants(getpid());
      if (left.empty()) return left;
      const int fd = OpenProcess(left[0]);
      pollfd ended{fd, POLLIN, 0};
      const bool in_time = fd < 0 || poll(&ended, 1, kPatienceMs) == 1;
      if (fd >= 0) close(fd);
      if (!in_time) return left;
    }
  }

  std::string directory_;
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  bool is_greeted_ = false;
  GreetingFinder greeting_;
  FrameReader frames_;
  std::string output_;
};

TEST_F(HostAgentTest, WorkersAreToldWhoTheyAreAndFindTheirSecretsInPrivateFiles) {
  StartAgent();
  AgentOrder order = Order(
      "echo $FARANDOLE_LAUNCH_INDEX of $FARANDOLE_SIZE at $FARANDOLE_COORDINATOR $MINE "
      "$OMP_NUM_THREADS; "
      "echo \"$(cat $FARANDOLE_TOKEN_FILE $FARANDOLE_CA_FILE)$(stat -c %a $FARANDOLE_TOKEN_FILE)\"",
      2);
  order.add_environment("MINE=a b");
  order.add_coordinators("no:1");
  order.add_coordinators("yes:2");
  order.set_ca_pem("the certificate");
  order.set_token("the token");
  Begin(order);
  EXPECT_EQ(AwaitType(FrameType::kEnded).type, FrameType::kEnded);
  AwaitType(FrameType::kEnded);
  Send(FrameType::kFinish);
  EXPECT_EQ(AwaitType(FrameType::kFinished).type, FrameType::kFinished);
  EXPECT_EQ(AwaitExit(), 0);
  EXPECT_THAT(output_, HasSubstr("4 of 8 at yes:2 a b 3\n"));
  EXPECT_THAT(output_, HasSubstr("5 of 8 at yes:2 a b 3\n"));
  EXPECT_THAT(output_, HasSubstr("the tokenthe certificate600\n"));
}

TEST_F(HostAgentTest, WhatAWorkerSaysComesBeforeItsEnd) {
  StartAgent();
  Begin(Order("echo last words; exit 3"));
  const absl::StatusOr<AgentEnded> end = Decode<AgentEnded>(AwaitType(FrameType::kEnded).message);
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->worker(), 4u);
  EXPECT_EQ(end->code(), 3);
  EXPECT_EQ(output_, "last words\n");
}

TEST_F(HostAgentTest, ASignalIsPassedOn) {
  StartAgent();
  Begin(Order("trap 'echo got it; exit 7' TERM; echo waiting; while :; do sleep 1000 & wait; done"));
  AwaitOutput("waiting\n");
  Send(FrameType::kSignal, Signal(SIGTERM, false));
  EXPECT_EQ(Decode<AgentEnded>(AwaitType(FrameType::kEnded).message)->code(), 7);
  EXPECT_THAT(output_, HasSubstr("got it\n"));
  Send(FrameType::kFinish);
  EXPECT_EQ(AwaitType(FrameType::kFinished).type, FrameType::kFinished);
  EXPECT_THAT(LeftBehind(), IsEmpty()) << "what the worker left running ends as well";
}

TEST_F(HostAgentTest, ASignalToOneWorkerReachesNoOther) {
  StartAgent();
  Begin(Order("echo here; exec sleep 1000", 2));
  AwaitOutput("here\nhere\n");
  Send(FrameType::kSignal, Signal(SIGKILL, true, 5));
  const absl::StatusOr<AgentEnded> end = Decode<AgentEnded>(AwaitType(FrameType::kEnded).message);
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->worker(), 5u);
  EXPECT_EQ(end->signal(), SIGKILL);
  Send(FrameType::kSignal, Signal(SIGTERM, true, 4));
  EXPECT_EQ(Decode<AgentEnded>(AwaitType(FrameType::kEnded).message)->worker(), 4u);
}

TEST_F(HostAgentTest, TheEndOfItsInputKillsWorkersAndTheirChildren) {
  StartAgent();
  Begin(Order("trap '' TERM HUP INT; setsid sleep 1000 & echo $!; exec sleep 1000", 2));
  AwaitOutput("\n");
  close(std::exchange(to_, -1));
  EXPECT_EQ(AwaitExit(), 1);
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_F(HostAgentTest, AKilledGuardAndAKilledAgentLeaveNothing) {
  for (const bool is_guard : {true, false}) {
    is_greeted_ = false;
    greeting_ = GreetingFinder();
    frames_ = FrameReader();
    output_.clear();
    StartAgent();
    Begin(Order("trap '' TERM; setsid sleep 1000 & echo $!; exec sleep 1000"));
    AwaitOutput("\n");
    const std::vector<pid_t> agent = Descendants(pid_);
    ASSERT_FALSE(agent.empty());
    kill(is_guard ? pid_ : agent[0], SIGKILL);
    EXPECT_THAT(LeftBehind(), IsEmpty()) << (is_guard ? "guard" : "agent");
    close(std::exchange(to_, -1));
    close(std::exchange(from_, -1));
  }
}

TEST_F(HostAgentTest, MoreWorkersMayBeStartedWhileOthersRun) {
  StartAgent();
  ASSERT_EQ(mkfifo((directory_ + "/gate").c_str(), 0600), 0);
  Begin(Order("echo at $FARANDOLE_LAUNCH_INDEX; read x <$DIR/gate"));
  AwaitOutput("at 4\n");
  Send(FrameType::kGo, Go(9));
  EXPECT_EQ(Decode<AgentStarted>(AwaitType(FrameType::kStarted).message)->worker(), 9u);
  Send(FrameType::kGo, Go(4));
  EXPECT_THAT(AwaitType(FrameType::kRemark).message, HasSubstr("worker 4 was to be started twice"));
  EXPECT_EQ(AwaitExit(), 1);
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_F(HostAgentTest, WorkersThatOutliveTheirLauncherGoOnPrintingAndTheAgentEndsWithThem) {
  StartAgent();
  ASSERT_EQ(mkfifo((directory_ + "/gate").c_str(), 0600), 0);
  AgentOrder order = Order("echo here; read x <$DIR/gate; seq 1 100000; echo done >$DIR/done");
  order.set_is_elastic(true);
  order.set_outlives_launcher(true);
  Begin(order);
  AwaitOutput("here\n");
  close(std::exchange(to_, -1));
  close(std::exchange(from_, -1));
  std::ofstream(directory_ + "/gate") << "go\n";
  AwaitExit();
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/done"));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_F(HostAgentTest, GarbageKillsAll) {
  StartAgent();
  Begin(Order("echo here; exec sleep 1000"));
  AwaitOutput("here\n");
  const std::string garbage(300, '\xee');
  ASSERT_EQ(write(to_, garbage.data(), garbage.size()), static_cast<ssize_t>(garbage.size()));
  EXPECT_THAT(AwaitType(FrameType::kRemark).message, HasSubstr("there is no frame of type 238"));
  EXPECT_EQ(AwaitExit(), 1);
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_F(HostAgentTest, AFrameOutOfTurnStartsNothing) {
  StartAgent();
  Send(FrameType::kGo, Go(0));
  EXPECT_THAT(AwaitType(FrameType::kRemark).message, HasSubstr("a frame of type 2 came out of turn"));
  EXPECT_EQ(AwaitExit(), 1);
}

TEST_F(HostAgentTest, ASilentLauncherIsTakenForDead) {
  StartAgent(absl::Seconds(2));
  Begin(Order("echo here; exec sleep 1000"));
  EXPECT_THAT(AwaitType(FrameType::kRemark).message, HasSubstr("nothing was heard of the launcher"));
  EXPECT_EQ(AwaitExit(), 1);
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_F(HostAgentTest, NoMoreOutputTravelsThanIsTaken) {
  StartAgent();
  Begin(Order("head -c 1000000 /dev/zero; exit 4"));
  while (output_.size() < kOutputWindowBytes) {
    const Frame frame = Next();
    ASSERT_EQ(frame.type, FrameType::kOutput);
    output_.append(Decode<AgentOutput>(frame.message)->text().size(), 'o');
  }
  EXPECT_LE(output_.size(), kOutputWindowBytes + kMaxOutputBytes);
  // Anything else passes by meanwhile.
  Send(FrameType::kSignal, Signal(SIGKILL, true));
  EXPECT_EQ(Decode<AgentEnded>(AwaitType(FrameType::kEnded).message)->signal(), SIGKILL);
}

TEST_F(HostAgentTest, WhatIsMissingHereIsNamedBeforeAnythingStarts) {
  StartAgent();
  AgentOrder order = Order("true");
  order.set_directory("/no/such/directory");
  Send(FrameType::kOrder, order);
  const Frame frame = Next();
  ASSERT_EQ(frame.type, FrameType::kRefused);
  EXPECT_EQ(Decode<AgentRefused>(frame.message)->sentence(),
            "cannot enter the working directory /no/such/directory: No such file or directory");
}

TEST_F(HostAgentTest, AProgramThatIsNotHereKeepsItsCode) {
  StartAgent();
  AgentOrder order = Order("true");
  order.clear_arguments();
  order.add_arguments("no-such-program");
  Send(FrameType::kOrder, order);
  const Frame frame = Next();
  ASSERT_EQ(frame.type, FrameType::kRefused);
  EXPECT_EQ(Decode<AgentRefused>(frame.message)->code(), static_cast<uint32_t>(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace farandole::launcher
